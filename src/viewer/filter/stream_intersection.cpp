#include "viewer/filter/stream_intersection.hpp"

#include <algorithm>

namespace leat::viewer {

Result<StreamIntersection> StreamIntersection::of(const RecordedTraces& traces) {
    StreamIntersection intersection;
    for (const auto& trace : traces) {
        for (const RecordedStream& stream : trace->streams()) {
            const ctf::PacketProperties& first = stream.packets.front().properties;
            const ctf::PacketProperties& last = stream.packets.back().properties;
            if (!first.begin_ns || !last.end_ns)
                return refused("--stream-intersection: stream {} does not say when it begins and ends", stream.name);
            Span& span = intersection.spans_[stream.trace_number];
            span.begin_ns = std::max(span.begin_ns, *first.begin_ns);
            // A packet that was open when its program crashed has 0 for its end.
            if (last.end_cycles != std::uint64_t{0}) span.end_ns = std::min(span.end_ns, *last.end_ns);
            if (span.begin_ns > span.end_ns)
                return refused("--stream-intersection: at no time were all streams active: {} is not while others are",
                               stream.name);
        }
    }
    return intersection;
}

}  // namespace leat::viewer
