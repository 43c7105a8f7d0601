#include "viewer/read/clock_agreement.hpp"

#include "viewer/read/tracer_quirks.hpp"

namespace leat::viewer {

Result<void> ClockAgreement::add(const ctf::TraceClass& trace_class, const ctf::ClockClass& clock) {
    const bool is_absolute =
        clock.is_absolute || (clock.name == "monotonic" && TracerQuirks::of(trace_class).counts_from_epoch);
    if (!first_) {
        first_ = Member{&clock, is_absolute};
        return {};
    }
    if (first_->is_absolute && is_absolute) return {};
    const bool is_same = clock.uuid ? clock.uuid == first_->clock->uuid : &clock == first_->clock;
    if (first_->is_absolute == is_absolute && is_same) return {};
    return unsupported("the traces have clocks that cannot be compared ('{}' and '{}'): view them one by one",
                       first_->clock->name, clock.name);
}

}  // namespace leat::viewer
