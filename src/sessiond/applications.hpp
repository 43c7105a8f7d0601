#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
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
};

// The programs that may be traced, and what they are told to do: for each tracepoint, what all sessions together want
// of it
// ([RFC-event-ids]). One thread.
class Applications {
  public:
    // What programs describe takes from the budgets of their users.
    Applications(wire::Lane lane, session::DescriptionBudgets& budgets) : lane_(lane), budgets_(&budgets) {}

    // Reads what the program has. Fails if it is not what a program of our version makes, or if the user's programs
    // describe too much.
    Result<TracedFile*> add(AppDirectories::Found found);
    void remove(const FileId& id) { files_.erase(id); }
    [[nodiscard]] TracedFile* find(const FileId& id);
    [[nodiscard]] std::map<FileId, TracedFile>& files() { return files_; }
    [[nodiscard]] const std::map<FileId, TracedFile>& files() const { return files_; }

    // Switches the file's tracepoints as the orders say.
    static Result<void> carry_out(TracedFile& file, session::Orders orders);

    // Events that the program could not write since the last call, as it had not got the rings.
    static std::uint64_t take_not_attached(TracedFile& file);

  private:
    std::shared_ptr<const session::Tracepoints> intern(std::vector<wire::TracepointDescription> tracepoints,
                                                       std::string table, session::DescriptionBudget& budget);
    void forget_unused_tables();

    wire::Lane lane_;
    session::DescriptionBudgets* budgets_;
    std::map<FileId, TracedFile> files_;
    // Programs that were started from one file have the same table.
    std::unordered_map<std::string, std::weak_ptr<const session::Tracepoints>> interned_;
    std::size_t interned_bytes_ = 0;  // of tables, also of those that nobody has any more
};

}  // namespace leat::sessiond
