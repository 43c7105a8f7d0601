#include "viewer/merge/merge.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "viewer/read/clock_agreement.hpp"

namespace leat::viewer {

Result<Merge> Merge::make(const RecordedTraces& traces, std::int64_t from_ns) {
    ClockAgreement agreement;
    for (const auto& trace : traces)
        for (const RecordedStream& stream : trace->streams())
            if (stream.plan->clock != nullptr) LEAT_TRY(agreement.add(trace->trace_class(), *stream.plan->clock));
    return Merge(traces, from_ns);
}

Merge::Merge(const RecordedTraces& traces, std::int64_t from_ns) {
    for (const auto& trace : traces)
        for (const RecordedStream& stream : trace->streams())
            readers_.emplace_back(*trace, stream).pass_over_before(from_ns);
}

Result<bool> Merge::next() {
    LEAT_TRY(std::exchange(has_begun_, true) ? advance_first() : begin());
    if (heap_.empty()) return false;
    LEAT_TRY(check_order());
    return true;
}

Result<void> Merge::begin() {
    for (std::size_t reader = 0; reader < readers_.size(); ++reader)
        if (LEAT_TRY(readers_[reader].next())) heap_.push_back(entry_of(reader));
    std::ranges::make_heap(heap_, std::greater());
    return {};
}

Result<void> Merge::advance_first() {
    if (LEAT_TRY(readers_[heap_.front().reader].next())) {
        heap_.front() = entry_of(heap_.front().reader);
    } else {
        heap_.front() = heap_.back();
        heap_.pop_back();
    }
    sink_first();
    return {};
}

Merge::Entry Merge::entry_of(std::size_t reader) const {
    return {readers_[reader].message().time_ns.value_or(INT64_MIN), reader};
}

// Puts the first entry where it belongs. The standard library would take it out and put it in again.
void Merge::sink_first() {
    std::size_t at = 0;
    for (std::size_t child = 1; child < heap_.size(); child = 2 * at + 1) {
        if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
        if (heap_[at] < heap_[child]) return;
        std::swap(heap_[at], heap_[child]);
        at = child;
    }
}

std::span<const ctf::EventPlace> Merge::take_run() {
    const Entry first = heap_.front();
    if (first.time_ns == INT64_MIN) return {};
    Entry other{INT64_MAX, SIZE_MAX};
    for (std::size_t child = 1; child < std::min<std::size_t>(heap_.size(), 3); ++child)
        other = std::min(other, heap_[child]);
    StreamReader& reader = readers_[first.reader];
    const auto following = reader.following();
    std::size_t count = 0;
    std::int64_t time_ns = first.time_ns;
    while (count < following.size() && following[count].time_ns >= time_ns &&
           Entry{following[count].time_ns, first.reader} < other)
        time_ns = following[count++].time_ns;
    reader.take(count);
    now_ns_ = time_ns;
    return following.first(count);
}

Result<void> Merge::check_order() {
    const std::int64_t time_ns = message().time_ns.value_or(now_ns_);
    if (time_ns < now_ns_)
        return corrupt("{}: time goes back by {} ns, from one message of the trace to the next", message().stream->name,
                       static_cast<std::uint64_t>(now_ns_) - static_cast<std::uint64_t>(time_ns));
    now_ns_ = time_ns;
    return {};
}

std::uint64_t Merge::bytes_begun() const {
    std::uint64_t bytes = 0;
    for (const StreamReader& reader : readers_) bytes += reader.bytes_begun();
    return bytes;
}

std::uint64_t Merge::bytes_in_all() const {
    std::uint64_t bytes = 0;
    for (const StreamReader& reader : readers_) bytes += reader.bytes_in_all();
    return bytes;
}

}  // namespace leat::viewer
