#include "session/registry.hpp"

namespace leat::session {

Result<Registry::Enrolled> Registry::enroll(ctf::EventClass event_class, std::string place) {
    const auto found = by_name_.find(event_class.name);
    if (found != by_name_.end()) {
        const auto& [known, first_place] = found->second;
        event_class.id = known.id;
        if (event_class == known) return Enrolled{static_cast<std::uint32_t>(known.id), false};
        return refused("event \"{}\" of {} has {} than that of {}: not recorded; rename one of them", known.name, place,
                       event_class.log_level != known.log_level ? "another log level" : "other fields", first_place);
    }
    if (classes_.size() >= kMaxEventClasses)
        return refused("event \"{}\" is one too many: there are {} already", event_class.name, kMaxEventClasses);
    event_class.id = classes_.size();
    const std::string name = event_class.name;
    const auto inserted = by_name_.emplace(name, Entry{std::move(event_class), std::move(place)}).first;
    classes_.push_back(&inserted->second.event_class);
    return Enrolled{static_cast<std::uint32_t>(classes_.size() - 1), true};
}

}  // namespace leat::session
