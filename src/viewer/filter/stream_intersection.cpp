#include "viewer/filter/stream_intersection.hpp"

#include <algorithm>

namespace leat::viewer {

Result<StreamIntersection> StreamIntersection::of(const RecordedTraces& traces) {
    StreamIntersection intersection;
    for (const auto& trace : traces) {
        std::int64_t begin_ns = INT64_MIN;
        std::int64_t end_ns = INT64_MAX;
        for (const RecordedStream& stream : trace->streams()) {
            const ctf::PacketProperties& first = stream.packets.front().properties;
            const ctf::PacketProperties& last = stream.packets.back().properties;
            if (!first.begin_ns || !last.end_ns)
                return refused("--stream-intersection: stream {} does not say when it begins and ends", stream.name);
            begin_ns = std::max(begin_ns, *first.begin_ns);
            // A packet that was open when its program crashed has 0 for its end.
            if (last.end_cycles != std::uint64_t{0}) end_ns = std::min(end_ns, *last.end_ns);
            if (begin_ns > end_ns)
                return refused("--stream-intersection: at no time were all streams active: {} is not while others are",
                               stream.name);
            intersection.ranges_[stream.trace_number] = TimeRange::of(begin_ns, end_ns);
        }
    }
    return intersection;
}

}  // namespace leat::viewer
