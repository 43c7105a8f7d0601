#include "session/session.hpp"

#include <algorithm>
#include <utility>

namespace leat::session {
namespace {

// Warnings about tracepoints of one application. The rest is only counted, so that a broken program cannot flood the
// user's terminal.
constexpr std::size_t kMaxWarnings = 20;
// For the same reason.
constexpr std::size_t kMaxConflicts = 100;
// More than processes begin within a second.
constexpr std::size_t kMaxPaths = 10'000;

}  // namespace

// Of one application.
struct Session::Refusals {
    std::size_t count = 0;

    void add(Orders& orders, std::string warning) {
        if (++count <= kMaxWarnings) orders.warnings.push_back(std::move(warning));
    }
};

RegistryKey Session::key_of(const Application& application) const {
    switch (parameters_.buffers) {
        case Buffers::kEverybody:
            // 32-bit programs, too: a recorder drains the rings of one trace.
            return {.uid = parameters_.uid};
        case Buffers::kUser:
            return {.uid = application.uid, .bitness = application.bitness};
        case Buffers::kPid:
            break;
    }
    return {.uid = application.uid,
            .bitness = application.bitness,
            .pid = application.pid,
            .pid_namespace = application.pid_namespace};
}

Result<Trace*> Session::trace_for(const Application& application) {
    const RegistryKey key = key_of(application);
    const auto found = traces_.find(key);
    if (found != traces_.end()) return found->second.get();
    auto made = make_trace(application, key);
    if (made) refused_.traces.erase(key);
    return made;
}

Result<Trace*> Session::make_trace(const Application& application, const RegistryKey& key) {
    Trace::Claim claim;
    if (parameters_.admit) claim = LEAT_TRY(parameters_.admit(key, parameters_.channels));
    Trace::Parameters parameters{.session_name = parameters_.name,
                                 .key = key,
                                 .lane = parameters_.lane,
                                 .program = application.procname,
                                 .vpid = application.vpid,
                                 .is_kept = parameters_.is_kept,
                                 .memory_directory = parameters_.memory_directory,
                                 .claim = std::move(claim),
                                 .environment = parameters_.environment,
                                 .time_source = parameters_.time_source,
                                 .budget = parameters_.budgets ? &(*parameters_.budgets)[key.uid] : nullptr};
    if (key.pid != 0) parameters.path = unused_path(parameters);
    auto trace = LEAT_TRY(Trace::create(parameters, parameters_.channels));
    if (parameters_.complete) LEAT_TRY(parameters_.complete(*trace));
    return traces_.emplace(key, std::move(trace)).first->second.get();
}

// Whether to warn of it: of many, the first is enough.
bool Session::refuse_trace(const RegistryKey& key, const std::string& reason) {
    refused_.reason = reason;
    const bool is_first = refused_.traces.empty();
    if (refused_.traces.size() < kMaxPaths) refused_.traces.insert(key);
    return is_first;
}

// A process that has become another user's has another trace, perhaps within the second that the path tells.
std::string Session::unused_path(const Trace::Parameters& parameters) {
    if (paths_of_processes_.size() >= kMaxPaths) paths_of_processes_.clear();
    const std::string usual = Trace::usual_path(parameters);
    std::string path = usual;
    for (int number = 2; !paths_of_processes_.insert(path).second; ++number) path = fmt::format("{}-{}", usual, number);
    return path;
}

std::unique_ptr<Trace> Session::add_trace(std::unique_ptr<Trace> trace) {
    const RegistryKey key = trace->key();
    // Its process may become another program within the same second.
    if (key.pid != 0) paths_of_processes_.insert(trace->path());
    // If there is one, try_emplace() leaves ours where it is.
    traces_.try_emplace(key, std::move(trace));
    return trace;
}

std::unique_ptr<Trace> Session::take_trace(const RegistryKey& key) {
    auto node = traces_.extract(key);
    return node.empty() ? nullptr : std::move(node.mapped());
}

const TraceChannel* Session::find_channel(std::uint32_t number, const Trace** of) const {
    for (const auto& [key, trace] : traces_) {
        for (const auto& channel : trace->channels()) {
            if (channel->number() != number) continue;
            if (of != nullptr) *of = trace.get();
            return channel.get();
        }
    }
    return nullptr;
}

const std::string* Session::find_channel_name(std::uint32_t number) const {
    for (const auto& [index, known] : waiting_)
        if (known == number) return &parameters_.channels[index].name;
    const TraceChannel* const channel = find_channel(number);
    return channel == nullptr ? nullptr : &channel->name();
}

void Session::count(const Application& application) {
    ++registrations_;
    for (const wire::TracepointDescription& tracepoint : *application.tracepoints)
        if (names_seen_.size() < kMaxEventClasses) names_seen_.insert(tracepoint.name);
}

Session::Counts Session::counts() const {
    Counts counts{registrations_, names_seen_.size(), 0};
    for (const auto& [key, trace] : traces_)
        for (const auto& channel : trace->channels()) counts.enabled += channel->event_class_count();
    return counts;
}

void Session::add_orders(const Application& application, Orders& orders) {
    if (!is_active_ || !tracked_.has(application)) return;
    Refusals refusals;
    for (std::size_t channel = 0; channel < parameters_.channels.size(); ++channel)
        if (parameters_.channels[channel].is_enabled) add_orders(application, channel, orders, refusals);
    if (refusals.count > kMaxWarnings)
        orders.warnings.push_back(
            fmt::format("{}: {} more tracepoints are not recorded", application.name(), refusals.count - kMaxWarnings));
}

void Session::add_orders(const Application& application, std::size_t index, Orders& orders, Refusals& refusals) {
    const Channel& channel = parameters_.channels[index];
    TraceChannel* target = nullptr;
    for (std::size_t i = 0; i < application.tracepoints->size(); ++i) {
        const wire::TracepointDescription& tracepoint = (*application.tracepoints)[i];
        if (find_rule(channel.rules, tracepoint.name, tracepoint.log_level) == nullptr) continue;
        if (target == nullptr) {
            const auto trace = trace_for(application);
            if (!trace) {
                if (refuse_trace(key_of(application), trace.error().message))
                    refusals.add(orders, fmt::format("{}: {}", application.name(), trace.error().message));
                return add_waiting_orders(application, index, orders, refusals);
            }
            target = (*trace)->channels()[index].get();
            orders.channels.push_back(target);
            orders.names[target->number()] = fmt::format("channel \"{}\" of session \"{}\"", channel.name, name());
        }
        const OnConflict otherwise = on_conflict(channel.rules, tracepoint.name, tracepoint.log_level);
        auto enrolled = target->enroll(application, i, otherwise);
        if (enrolled.is_over_budget) refuse_event(application.uid, enrolled.warning);
        if (!enrolled.warning.empty()) refusals.add(orders, std::move(enrolled.warning));
        if (!enrolled.conflict.empty() && conflicts_.size() < kMaxConflicts)
            conflicts_.push_back({channel.name, std::move(enrolled.conflict.front())});
        if (enrolled.id == wire::kNotEnabled) continue;
        complete_conflicts(channel.name, application, tracepoint);
        add_action(application, i, {.event_id = enrolled.id, .channel = target->number()}, orders, refusals);
    }
}

// Where there are too many, those that are there stay: nobody takes events from a session that records them.
void Session::add_action(const Application& application, std::size_t tracepoint, wire::Action action, Orders& orders,
                         Refusals& refusals) {
    auto& actions = orders.actions[tracepoint];
    if (actions.size() < wire::kMaxActions) return actions.push_back(action);
    const auto is_new = [&](const wire::Action& other) {
        return orders.before == nullptr ||
               std::ranges::find((*orders.before)[tracepoint], other) == (*orders.before)[tracepoint].end();
    };
    if (!is_new(action)) {
        const auto last_new = std::find_if(actions.rbegin(), actions.rend(), is_new);
        if (last_new != actions.rend()) std::swap(*last_new, action);
    }
    refusals.add(orders, fmt::format("{}: \"{}\" is wanted by more than {} channels: not recorded in {}",
                                     application.name(), (*application.tracepoints)[tracepoint].name, wire::kMaxActions,
                                     orders.names[action.channel]));
}

// Of each user, the first event is warned of.
void Session::refuse_event(uid_t uid, std::string& warning) {
    ++refused_.events;
    refused_.reason = warning;
    if (!(*parameters_.budgets)[uid].take_untold()) warning.clear();
}

void Session::add_waiting_orders(const Application& application, std::size_t index, Orders& orders,
                                 Refusals& refusals) {
    const Channel& channel = parameters_.channels[index];
    orders.is_waiting = true;
    const auto [number, is_new] = waiting_.try_emplace(index);
    if (is_new) number->second = next_channel_number(parameters_.lane);
    orders.names[number->second] = fmt::format("channel \"{}\" of session \"{}\"", channel.name, name());
    for (std::size_t i = 0; i < application.tracepoints->size(); ++i) {
        const wire::TracepointDescription& tracepoint = (*application.tracepoints)[i];
        if (tracepoint.refusal.empty() && find_rule(channel.rules, tracepoint.name, tracepoint.log_level) != nullptr)
            add_action(application, i, {.event_id = wire::kNotEnabled, .channel = number->second}, orders, refusals);
    }
}

// After a restart, an event may conflict with one that is known before a program comes that has it.
void Session::complete_conflicts(const std::string& channel, const Application& application,
                                 const wire::TracepointDescription& tracepoint) {
    for (KnownConflict& known : conflicts_)
        if (!known.conflict.known.is_known() && known.channel == channel && known.conflict.event == tracepoint.name)
            known.conflict.known = origin_of(application, tracepoint);
}

}  // namespace leat::session
