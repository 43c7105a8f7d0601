#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "session/description_budget.hpp"
#include "session/session.hpp"
#include "sessiond/app_directories.hpp"
#include "wire/app/control_file.hpp"

namespace leat::sessiond {

// A control file of a program: that of the program itself, or of a library that it has loaded.
struct TracedFile {
    session::Application application;
    wire::ControlFile control;
    std::vector<std::vector<wire::Action>> orders;  // of each tracepoint: what it does now
    std::uint64_t not_attached = 0;                 // events; as far as somebody was told
    std::uint32_t counted_for = 0;                  // the number of the channel that such events were for last
    bool is_waiting = false;                        // for a trace
    unsigned looks_without_name = 0;                // since the file was removed, and the program went on
    session::DescriptionClaim claim{};              // of what we keep of each tracepoint
};

// The programs that may be traced, and what they are told to do: for each tracepoint, what all sessions together want
// of it
// ([RFC-event-ids]). One thread.
class Applications {
  public:
    // What programs describe takes from the budgets of their users, and so does what is kept of each tracepoint: a file
    // that is nearly all hole may say that it has a million of them.
    Applications(wire::Lane lane, session::DescriptionBudgets& budgets) : lane_(lane), budgets_(&budgets) {}

    // Reads what the program has. Fails if it is not what a program of our version makes, or if the user's programs
    // describe too much.
    Result<TracedFile*> add(AppDirectories::Found found);
    void remove(const FileId& id) {
        files_.erase(id);
        over_budget_.erase(id);
    }
    // Whether the file was refused because its user's budget had no more.
    [[nodiscard]] bool is_over_budget(const FileId& id) const { return over_budget_.contains(id); }
    // Those files, and their users, that the budgets would have room for by now.
    [[nodiscard]] std::vector<std::pair<FileId, uid_t>> with_room_again() const;
    // Of each user, whether nobody was told yet that programs are refused as the budget has no more.
    bool take_untold(uid_t uid) { return told_.insert(uid).second; }
    [[nodiscard]] TracedFile* find(const FileId& id);
    [[nodiscard]] std::map<FileId, TracedFile>& files() { return files_; }
    [[nodiscard]] const std::map<FileId, TracedFile>& files() const { return files_; }

    // Switches the file's tracepoints as the orders say.
    static Result<void> carry_out(TracedFile& file, session::Orders orders);

    // Events that the program could not write since the last call, as it had not got the rings.
    static std::uint64_t take_not_attached(TracedFile& file);

  private:
    using Table = std::pair<uid_t, std::string>;
    struct OverBudget {
        uid_t uid;
        std::int64_t bytes;  // that the budget had not
    };
    Result<void> check_budget(const AppDirectories::Found& found, std::size_t bytes);
    std::shared_ptr<const session::Tracepoints> intern(std::vector<wire::TracepointDescription> tracepoints,
                                                       Table table);
    void forget_unused_tables();

    wire::Lane lane_;
    session::DescriptionBudgets* budgets_;
    std::map<FileId, TracedFile> files_;
    std::map<FileId, OverBudget> over_budget_;  // files that are there, and not traced
    // Programs that were started from one file have the same table. Each user pays for their own.
    std::map<Table, std::weak_ptr<const session::Tracepoints>> interned_;
    std::size_t interned_bytes_ = 0;  // of tables, also of those that nobody has any more
    std::set<uid_t> told_;            // that their budgets have no more
};

}  // namespace leat::sessiond
