#include "sessiond/applications.hpp"

#include <utility>

namespace leat::sessiond {
namespace {

// How many tables are remembered before those that nobody has any more are forgotten.
constexpr std::size_t kManyTables = 1024;
constexpr std::size_t kManyBytes = 64U << 20;

// The table of programs that were started from one file.
struct Interned {
    session::Tracepoints tracepoints;
    session::DescriptionBudget& budget;
    std::int64_t size;

    Interned(session::Tracepoints all, session::DescriptionBudget& of, std::int64_t bytes)
        : tracepoints(std::move(all)), budget(of), size(bytes) {
        budget.take(size);
    }
    ~Interned() { budget.give_back(size); }
    Interned(const Interned&) = delete;
    Interned& operator=(const Interned&) = delete;
};

}  // namespace

Result<TracedFile*> Applications::add(AppDirectories::Found found) {
    wire::ControlFile control = LEAT_TRY(wire::ControlFile::open(std::move(found.fd), lane_));
    std::string table = LEAT_TRY(control.read_table());
    const auto known = interned_.find(table);
    std::shared_ptr<const session::Tracepoints> tracepoints = known == interned_.end() ? nullptr : known->second.lock();
    if (tracepoints == nullptr) {
        session::DescriptionBudget& budget = (*budgets_)[found.uid];
        if (!budget.has(static_cast<std::int64_t>(table.size())))
            return refused("the user's programs describe too many events: no memory for {} bytes more", table.size());
        auto parsed = LEAT_TRY(control.parse_table(table));
        tracepoints = intern(std::move(parsed), std::move(table), budget);
    }
    session::Application application{.pid = static_cast<pid_t>(control.pid()),
                                     .vpid = static_cast<pid_t>(control.pid()),
                                     .pid_namespace = control.pid_namespace(),
                                     .uid = found.uid,
                                     .gid = found.gid,
                                     .procname = control.procname(),
                                     .bitness = control.bitness(),
                                     .tracepoints = tracepoints};
    TracedFile file{.application = std::move(application),
                    .control = std::move(control),
                    .orders = std::vector<std::vector<wire::Action>>(tracepoints->size())};
    return &files_.insert_or_assign(found.id, std::move(file)).first->second;
}

std::shared_ptr<const session::Tracepoints> Applications::intern(std::vector<wire::TracepointDescription> tracepoints,
                                                                 std::string table,
                                                                 session::DescriptionBudget& budget) {
    forget_unused_tables();
    const auto kept =
        std::make_shared<const Interned>(std::move(tracepoints), budget, static_cast<std::int64_t>(table.size()));
    std::shared_ptr<const session::Tracepoints> shared(kept, &kept->tracepoints);
    const std::size_t size = table.size();
    if (interned_.insert_or_assign(std::move(table), shared).second) interned_bytes_ += size;
    return shared;
}

void Applications::forget_unused_tables() {
    if (interned_.size() < kManyTables && interned_bytes_ < kManyBytes) return;
    std::erase_if(interned_, [this](const auto& entry) {
        if (!entry.second.expired()) return false;
        interned_bytes_ -= entry.first.size();
        return true;
    });
}

TracedFile* Applications::find(const FileId& id) {
    const auto found = files_.find(id);
    return found == files_.end() ? nullptr : &found->second;
}

// What is off already costs nothing to switch off.
Result<void> Applications::carry_out(TracedFile& file, session::Orders orders) {
    for (std::uint32_t i = 0; i < orders.actions.size(); ++i) {
        if (!orders.actions[i].empty() && orders.actions[i] == file.orders[i]) continue;
        LEAT_TRY(file.control.switch_to(i, orders.actions[i]));
        file.orders[i] = std::move(orders.actions[i]);
    }
    return {};
}

std::uint64_t Applications::take_not_attached(TracedFile& file) {
    const auto counted = file.control.not_attached();
    if (!counted || *counted < file.not_attached) return 0;
    return *counted - std::exchange(file.not_attached, *counted);
}

}  // namespace leat::sessiond
