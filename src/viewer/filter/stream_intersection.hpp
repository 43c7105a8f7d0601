#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::viewer {

// When all streams of a trace were active: from the begin of the one that began last to the end of the one that ended
// first, as `--stream-intersection` of babeltrace2 has it ([babeltrace-2.0], babeltrace2-convert(1)). Both ends belong
// to it. A recording in which every stream keeps its newest packets shows all CPUs only then.
class StreamIntersection {
  public:
    // An error names the stream that does not say when it was active, or a trace without such a time.
    static Result<StreamIntersection> of(const RecordedTraces& traces);

    [[nodiscard]] bool contains(const StreamIdentity& stream, std::int64_t time_ns) const {
        const Span& span = spans_.at(stream.trace_number);
        return span.begin_ns <= time_ns && time_ns <= span.end_ns;
    }
    [[nodiscard]] bool touches(const StreamIdentity& stream, const Loss& loss) const {
        const Span& span = spans_.at(stream.trace_number);
        return !loss.begin_ns || !loss.end_ns || (*loss.end_ns >= span.begin_ns && *loss.begin_ns <= span.end_ns);
    }

  private:
    struct Span {
        std::int64_t begin_ns = INT64_MIN;
        std::int64_t end_ns = INT64_MAX;
    };

    std::map<std::uint64_t, Span> spans_;  // by the number of the trace
};

}  // namespace leat::viewer
