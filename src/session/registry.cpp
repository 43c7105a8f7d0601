#include "session/registry.hpp"

#include <span>

#include "ctf/tsdl/tsdl_writer.hpp"
#include "session/event_difference.hpp"

namespace leat::session {
namespace {

// In metadata.
std::int64_t size_of(const ctf::EventClass& event_class) {
    return static_cast<std::int64_t>(ctf::event_block(event_class, 0).size());
}

}  // namespace

Registry::~Registry() {
    if (budget_ != nullptr) budget_->give_back(taken_);
}

// "nginx (4711), file.c:12"
std::string EventOrigin::text() const {
    if (!is_known()) return "an earlier program";
    return pid == 0 ? fmt::format("{}, {}", program, place) : fmt::format("{} ({}), {}", program, pid, place);
}

EventOrigin origin_of(const Application& application, const wire::TracepointDescription& tracepoint) {
    return {application.procname, fmt::format("{}:{}", tracepoint.file, tracepoint.line), application.pid};
}

std::string Conflict::text() const {
    return fmt::format("event \"{}\" of {} differs from that of {}: {}: not recorded; rename one of them", event,
                       refused.text(), known.text(), difference);
}

tl::expected<Registry::Enrolled, Registry::Refusal> Registry::enroll(ctf::EventClass event_class,
                                                                     const EventOrigin& origin,
                                                                     OnConflict on_conflict) {
    const auto named = by_name_.find(event_class.name);
    const std::span<const std::uint32_t> versions =
        named == by_name_.end() ? std::span<const std::uint32_t>{} : named->second;
    for (const std::uint32_t id : versions) {
        event_class.id = id;
        if (event_class != classes_[id].event_class) continue;
        if (!classes_[id].origin.is_known()) classes_[id].origin = origin;
        return Enrolled{id, false};
    }
    if (!versions.empty() && (on_conflict == OnConflict::kRefuse || versions.size() >= kMaxVersions)) {
        const Entry& known = classes_[versions.front()];
        Conflict conflict{.event = event_class.name,
                          .known = known.origin,
                          .refused = origin,
                          .difference = difference_between(known.event_class, event_class)};
        Error error{ErrorKind::kRefused, conflict.text()};
        return tl::unexpected(Refusal{std::move(error), {std::move(conflict)}});
    }
    if (classes_.size() >= kMaxEventClasses)
        return tl::unexpected(
            Refusal{{ErrorKind::kRefused, fmt::format("event \"{}\" is one too many: there are {} already",
                                                      event_class.name, kMaxEventClasses)}});
    if (budget_ != nullptr && !budget_->has(size_of(event_class)))
        return tl::unexpected(Refusal{
            .error = {ErrorKind::kRefused,
                      fmt::format(
                          "event \"{}\" of {} is one too many: the events of this user's programs take too much "
                          "memory: destroy sessions that record all events of many programs",
                          event_class.name, origin.text())},
            .is_over_budget = true});
    return Enrolled{add(std::move(event_class), origin), true};
}

void Registry::take_back_last() {
    const ctf::EventClass& last = classes_.back().event_class;
    const auto named = by_name_.find(last.name);
    named->second.pop_back();
    if (named->second.empty()) by_name_.erase(named);
    if (budget_ != nullptr) {
        const std::int64_t size = size_of(last);
        budget_->give_back(size);
        taken_ -= size;
    }
    classes_.pop_back();
}

void Registry::restore(ctf::EventClass event_class) { add(std::move(event_class), {}); }

std::uint32_t Registry::add(ctf::EventClass event_class, EventOrigin origin) {
    if (budget_ != nullptr) {
        const std::int64_t size = size_of(event_class);
        budget_->take(size);
        taken_ += size;
    }
    const auto id = static_cast<std::uint32_t>(classes_.size());
    event_class.id = id;
    by_name_[event_class.name].push_back(id);
    classes_.push_back({std::move(event_class), std::move(origin)});
    return id;
}

}  // namespace leat::session
