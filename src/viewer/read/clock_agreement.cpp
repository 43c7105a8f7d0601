#include "viewer/read/clock_agreement.hpp"

#include <string>

namespace leat::viewer {
namespace {

// LTTng's clock counts from the Unix epoch, and its metadata forgets to say so ([LTTng-2.13], "Clock").
bool is_clock_of_lttng(const ctf::TraceClass& trace_class, const ctf::ClockClass& clock) {
    const std::string* const tracer = ctf::environment_text(trace_class, "tracer_name");
    return tracer != nullptr && (*tracer == "lttng-ust" || *tracer == "lttng-modules") && clock.name == "monotonic";
}

}  // namespace

Result<void> ClockAgreement::add(const ctf::TraceClass& trace_class, const ctf::ClockClass& clock) {
    const bool is_absolute = clock.is_absolute || is_clock_of_lttng(trace_class, clock);
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
