#include "session/registry.hpp"

namespace leat::session {

Result<Registry::Enrolled> Registry::enroll(ctf::EventClass event_class) {
    const auto found = by_name_.find(event_class.name);
    if (found != by_name_.end()) {
        const ctf::EventClass& known = found->second;
        event_class.id = known.id;
        if (event_class == known) return Enrolled{static_cast<std::uint32_t>(known.id), false};
        return refused("event \"{}\" is known with {}: not recorded from this program", known.name,
                       event_class.log_level != known.log_level ? "another log level" : "other fields");
    }
    if (classes_.size() >= kMaxEventClasses)
        return refused("event \"{}\" is one too many: there are {} already", event_class.name, kMaxEventClasses);
    event_class.id = classes_.size();
    const auto inserted = by_name_.emplace(event_class.name, std::move(event_class)).first;
    classes_.push_back(&inserted->second);
    return Enrolled{static_cast<std::uint32_t>(inserted->second.id), true};
}

}  // namespace leat::session
