// What tracers are known to get wrong: [LTTng-2.13], "Clock"; [babeltrace-2.0] reads these alike.
#pragma once

#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// The tracer is known by its name and version in the trace's environment.
struct TracerQuirks {
    bool leaves_packets_open = false;  // timestamp_end is 0 in a packet that was still open when the program crashed
    bool ends_packets_early = false;   // events may be later than the end of their packet
    bool begins_packets_late = false;  // events may be earlier than the begin of their packet
    bool counts_from_epoch = false;    // so does its clock `monotonic`, which does not say so

    [[nodiscard]] static TracerQuirks of(const ctf::TraceClass& trace_class);
};

}  // namespace leat::viewer
