#include "viewer/stats/interval_meter.hpp"

#include <utility>

#include "base/pattern.hpp"

namespace leat::viewer {

Result<void> IntervalMeter::add(const PacketView& packet, const ctf::EventPlace& place) {
    const Role role = role_of(packet, place);
    if (role == Role::kNone || packet.plan->clock == nullptr) return {};
    auto key = LEAT_TRY(key_of(packet, place));
    if (!key) {
        ++without_key_;
        return {};
    }
    const auto begun = open_.find(*key);
    if (role != Role::kFrom) {
        if (begun != open_.end())
            histogram_.add(static_cast<std::uint64_t>(place.time_ns) -
                           static_cast<std::uint64_t>(begun->second.time_ns));
        else
            without_begin_ += role == Role::kTo ? 1 : 0;
    }
    if (role == Role::kFrom && begun != open_.end()) ++repeated_;
    if (begun != open_.end()) forget(begun);
    if (role == Role::kTo) return {};
    // Their ends may have been lost.
    if (open_.size() >= most_open_) {
        ++forgotten_;
        forget(open_.find(*oldest_.begin()->second));
    }
    const auto begins = open_.emplace(std::move(*key), Open{place.time_ns, begun_++}).first;
    oldest_.emplace(begins->second.number, &begins->first);
    return {};
}

void IntervalMeter::forget(std::map<std::string, Open>::iterator open) {
    oldest_.erase(open->second.number);
    open_.erase(open);
}

IntervalMeter::Role IntervalMeter::role_of(const PacketView& packet, const ctf::EventPlace& place) {
    auto& roles = roles_[packet.plan->number];
    if (roles.size() < packet.plan->events.size()) roles.resize(packet.plan->events.size());
    Role& role = roles[place.event];
    if (role != Role::kUnknown) return role;
    const std::string& name = packet.plan->events[place.event].event_class->name;
    const bool is_from = matches_pattern(from_, name);
    const bool is_to = matches_pattern(to_, name);
    role = is_from && is_to ? Role::kBoth : is_from ? Role::kFrom : is_to ? Role::kTo : Role::kNone;
    return role;
}

// None: the event lacks one of the fields.
Result<std::optional<std::string>> IntervalMeter::key_of(const PacketView& packet, const ctf::EventPlace& place) {
    std::optional<std::string> all(std::in_place);
    for (EventExpression& key : keys_) {
        const auto one = viewer::key_of(LEAT_TRY(key.value(packet, place)));
        if (!one) return std::optional<std::string>();
        // The sizes tell "a", "bc" and "ab", "c" apart.
        *all += keys_.size() == 1 ? *one : fmt::format("{}:{}", one->size(), *one);
    }
    return all;
}

}  // namespace leat::viewer
