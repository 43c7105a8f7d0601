#pragma once

#include <cstdint>
#include <map>

#include "base/result.hpp"
#include "viewer/filter/time_range.hpp"
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

    [[nodiscard]] const TimeRange& range_of(const StreamIdentity& stream) const {
        return ranges_.at(stream.trace_number);
    }

  private:
    std::map<std::uint64_t, TimeRange> ranges_;  // by the number of the trace
};

}  // namespace leat::viewer
