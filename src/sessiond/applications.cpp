#include "sessiond/applications.hpp"

#include <utility>

namespace leat::sessiond {
namespace {

// How many tables are remembered before those that nobody has any more are forgotten.
constexpr std::size_t kManyTables = 1024;
constexpr std::size_t kManyBytes = 64U << 20;

// What a file is charged for each of its tracepoints, beside the table. That is more than it takes of memory: each also
// takes time whenever anything changes, so that a user has half a million at most.
constexpr std::size_t kStateSize = 512;
static_assert(kStateSize >= sizeof(std::vector<wire::Action>) + wire::ControlFile::kStateSize);

// The table of programs that were started from one file.
struct Interned {
    session::Tracepoints tracepoints;
    session::DescriptionClaim claim;
};

}  // namespace

Result<void> Applications::check_budget(const AppDirectories::Found& found, std::size_t bytes) {
    const auto size = static_cast<std::int64_t>(bytes);
    if ((*budgets_)[found.uid].has(size)) return {};
    over_budget_.insert_or_assign(found.id, OverBudget{found.uid, size});
    return refused("the user's programs describe too many events: no memory for {} bytes more", bytes);
}

Result<TracedFile*> Applications::add(AppDirectories::Found found) {
    over_budget_.erase(found.id);
    session::DescriptionClaim claim;
    const auto admit = [&](std::uint32_t tracepoint_count) -> Result<void> {
        const std::size_t bytes = tracepoint_count * kStateSize;
        LEAT_TRY(check_budget(found, bytes));
        claim = session::DescriptionClaim((*budgets_)[found.uid], static_cast<std::int64_t>(bytes));
        return {};
    };
    wire::ControlFile control = LEAT_TRY(wire::ControlFile::open(std::move(found.fd), lane_, admit));
    Table table{found.uid, LEAT_TRY(control.read_table())};
    const auto known = interned_.find(table);
    std::shared_ptr<const session::Tracepoints> tracepoints = known == interned_.end() ? nullptr : known->second.lock();
    if (tracepoints == nullptr) {
        LEAT_TRY(check_budget(found, table.second.size()));
        auto parsed = LEAT_TRY(control.parse_table(table.second));
        tracepoints = intern(std::move(parsed), std::move(table));
    } else if (tracepoints->size() != control.tracepoint_count()) {
        return corrupt("{} tracepoints are described, not {}", tracepoints->size(), control.tracepoint_count());
    }
    session::Application application{.pid = static_cast<pid_t>(control.pid()),
                                     .vpid = static_cast<pid_t>(control.pid()),
                                     .pid_namespace = control.pid_namespace(),
                                     .uid = found.uid,
                                     .gid = found.gid,
                                     .procname = control.procname(),
                                     .bitness = control.bitness(),
                                     .tracepoints = tracepoints};
    // A daemon before us may have switched it on, and what it wanted may be over by now.
    const std::uint32_t counted_for = control.channel_of_before();
    TracedFile file{.application = std::move(application),
                    .control = std::move(control),
                    .orders = std::vector<std::vector<wire::Action>>(tracepoints->size()),
                    .counted_for = counted_for,
                    .claim = std::move(claim)};
    return &files_.insert_or_assign(found.id, std::move(file)).first->second;
}

std::shared_ptr<const session::Tracepoints> Applications::intern(std::vector<wire::TracepointDescription> tracepoints,
                                                                 Table table) {
    forget_unused_tables();
    const std::size_t size = table.second.size();
    session::DescriptionClaim claim((*budgets_)[table.first], static_cast<std::int64_t>(size));
    const auto kept = std::make_shared<const Interned>(Interned{std::move(tracepoints), std::move(claim)});
    std::shared_ptr<const session::Tracepoints> shared(kept, &kept->tracepoints);
    if (interned_.insert_or_assign(std::move(table), shared).second) interned_bytes_ += size;
    return shared;
}

void Applications::forget_unused_tables() {
    if (interned_.size() < kManyTables && interned_bytes_ < kManyBytes) return;
    std::erase_if(interned_, [this](const auto& entry) {
        if (!entry.second.expired()) return false;
        interned_bytes_ -= entry.first.second.size();
        return true;
    });
}

std::vector<std::pair<FileId, uid_t>> Applications::with_room_again() const {
    std::vector<std::pair<FileId, uid_t>> files;
    for (const auto& [id, refused] : over_budget_)
        if ((*budgets_)[refused.uid].has(refused.bytes)) files.emplace_back(id, refused.uid);
    return files;
}

TracedFile* Applications::find(const FileId& id) {
    const auto found = files_.find(id);
    return found == files_.end() ? nullptr : &found->second;
}

// What is off already costs nothing to switch off. Where one list of actions cannot be written (it may need a page, and
// there is no memory), other tracepoints still do as they are told: above all those that are to be off.
Result<void> Applications::carry_out(TracedFile& file, session::Orders orders) {
    Result<void> all;
    for (std::uint32_t i = 0; i < orders.actions.size(); ++i) {
        if (!orders.actions[i].empty() && orders.actions[i] == file.orders[i]) continue;
        auto switched = file.control.switch_to(i, orders.actions[i]);
        if (switched) file.orders[i] = std::move(orders.actions[i]);
        if (!switched && all) all = std::move(switched);
    }
    return all;
}

std::uint64_t Applications::take_not_attached(TracedFile& file) {
    const auto counted = file.control.not_attached();
    if (!counted || *counted < file.not_attached) return 0;
    return *counted - std::exchange(file.not_attached, *counted);
}

}  // namespace leat::sessiond
