#include "viewer/merge/merge.hpp"

#include <utility>

#include "viewer/read/clock_agreement.hpp"

namespace leat::viewer {
namespace {

constexpr std::size_t kMostEvents = 1024;  // are told at once
// Events of one stream, after which more of it are expected: those need not meet the other streams one by one.
constexpr unsigned kManyInARow = 8;

// Where slices are sorted.
constexpr std::size_t kFewestForSlices = 48;
constexpr std::size_t kMostForSlices = 8192;
static_assert(kMostForSlices <= TimeSlice::kMostStreams && PacketReader::kEventsAtOnce <= TimeSlice::kMostOfRun);
// Events of each stream, told by the tree, before a slice is tried again.
constexpr std::size_t kShortestWait = 16;
constexpr std::size_t kLongestWait = 512;

std::size_t count_streams(const RecordedTraces& traces) {
    std::size_t streams = 0;
    for (const auto& trace : traces) streams += trace->streams().size();
    return streams;
}

// Where there are many streams, what was found in all of them shall stay in the cache.
std::size_t events_at_once(std::size_t streams) {
    constexpr std::size_t kFewStreams = 16;
    constexpr std::size_t kManyStreams = 512;
    if (streams <= kFewStreams) return 2 * PacketReader::kEventsAtOnce;
    return PacketReader::kEventsAtOnce / (streams < kManyStreams ? 2 : 4);
}

}  // namespace

Result<Merge> Merge::make(const RecordedTraces& traces, std::int64_t from_ns, Order order) {
    ClockAgreement agreement;
    for (const auto& trace : traces)
        for (const RecordedStream& stream : trace->streams())
            if (stream.plan->clock != nullptr) LEAT_TRY(agreement.add(trace->trace_class(), *stream.plan->clock));
    return Merge(traces, from_ns, order);
}

Merge::Pace::Pace(std::size_t streams) : streams_(streams), wait_(streams), next_wait_(kShortestWait * streams) {
    if (streams < kFewestForSlices || streams > kMostForSlices) wait_ = SIZE_MAX;
}

bool Merge::Pace::accepts(std::size_t events) {
    constexpr std::size_t kToBegin = 4;  // events of each stream
    constexpr std::size_t kMostCredit = 8;
    const bool is_worth_it = makes_slices_ ? credit_ + events >= streams_ : events >= kToBegin * streams_;
    makes_slices_ = is_worth_it;
    if (is_worth_it) {
        credit_ = std::min(credit_ + events - streams_, kMostCredit * streams_);
        next_wait_ = kShortestWait * streams_;
        return true;
    }
    credit_ = told_ = 0;
    wait_ = std::exchange(next_wait_, std::min(2 * next_wait_, kLongestWait * streams_));
    return false;
}

Merge::Merge(const RecordedTraces& traces, std::int64_t from_ns, Order order)
    : kind_(order), pace_(count_streams(traces)) {
    const std::size_t streams = count_streams(traces);
    readers_.reserve(streams);
    for (const auto& trace : traces)
        for (const RecordedStream& stream : trace->streams())
            readers_.emplace_back(*trace, stream, events_at_once(streams)).pass_over_before(from_ns);
    found_.resize(streams);
    heads_.resize(streams);
    batch_.resize(kMostEvents);
}

Result<bool> Merge::next() {
    events_ = {};
    if (kind_ == Order::kAny) return next_in_any_order();
    if (slice_.is_told()) {
        if (!std::exchange(has_begun_, true))
            LEAT_TRY(begin());
        else if (!is_read_)
            LEAT_TRY(read_on());
        is_read_ = true;
        if (!find_first()) return false;
    }
    if (!slice_.is_told()) {
        tell_slice();
        return true;
    }
    LEAT_TRY(check_order());
    if (found_[first_].next != nullptr) {
        gather_events();
    } else {
        tell_message();
        is_read_ = false;
    }
    return true;
}

// An event without a time is one.
void Merge::tell_message() {
    const Message& message = this->message();
    if (message.kind != Message::Kind::kEvent) return;
    batch_.front() = {message.packet, &message.place};
    events_ = std::span(batch_).first(1);
}

Result<bool> Merge::next_in_any_order() {
    for (; first_ < readers_.size(); ++first_, now_ns_ = INT64_MIN) {
        const auto is_told = next_of_first();
        if (is_told && *is_told) return true;
        if (!is_told && !error_) error_ = is_told.error();
    }
    if (error_) return tl::unexpected(*error_);
    return false;
}

// All that was found: where time goes back, it ends.
Result<bool> Merge::next_of_first() {
    FoundRun& found = found_[first_];
    const bool is_left = found.next != nullptr && found.next != found.end;
    if (!is_left && LEAT_TRY(read(first_)).source == LoserTree::kEnded.source) return false;
    LEAT_TRY(check_order());
    if (found.next == nullptr) {
        tell_message();
        return true;
    }
    batch_.front() = {found.packet, found.next++};
    const std::size_t count = 1 + tell_in_a_row(found, INT64_MAX, std::span(batch_).subspan(1));
    now_ns_ = found.next[-1].time_ns;
    events_ = std::span(batch_).first(count);
    return true;
}

Result<void> Merge::begin() {
    for (std::size_t stream = 0; stream < readers_.size(); ++stream) heads_[stream] = LEAT_TRY(read(stream));
    build_order();
    return {};
}

Result<void> Merge::read_on() {
    heads_[first_] = LEAT_TRY(read(first_));
    if (is_order_old_) return {};
    heads_[first_].source == LoserTree::kEnded.source ? order_.end_first()
                                                      : order_.replace_first(heads_[first_].time_ns);
    return {};
}

Result<LoserTree::Entry> Merge::read(std::size_t index) {
    StreamReader& reader = readers_[index];
    FoundRun& found = found_[index];
    if (found.next != nullptr) reader.take_found();
    found = {};
    if (!LEAT_TRY(reader.next())) return LoserTree::kEnded;
    const Message& message = reader.message();
    if (message.kind == Message::Kind::kEvent && message.time_ns) {
        found = {.packet = message.packet};
        found.have(reader.found());
    }
    return LoserTree::Entry{message.time_ns.value_or(LoserTree::kNoTime), index};
}

// Or the next slice; false if all streams have ended.
bool Merge::find_first() {
    if (pace_.allows_slices() && make_slice()) return true;
    if (is_order_old_) build_order();
    if (order_.has_ended()) return false;
    first_ = order_.first_source();
    return true;
}

void Merge::build_order() {
    std::vector<LoserTree::Entry> heads = heads_;
    for (std::size_t stream = 0; stream < heads.size(); ++stream)
        if (found_[stream].next != nullptr) heads[stream].time_ns = found_[stream].next->time_ns;
    order_ = LoserTree(heads);
    is_order_old_ = false;
}

// If nothing comes before the message of a stream that is no event, the slice is empty, and that message is the next.
bool Merge::make_slice() {
    const TimeSlice::Limit limit = find_limit();
    bool is_in_order = slice_.fill(found_, now_ns_, limit) && limit.stream < readers_.size();
    // Where time goes back in a run, its end may be before all that comes next.
    if (slice_.is_told()) is_in_order = is_in_order && found_[limit.stream].next == nullptr;
    if (!pace_.accepts(slice_.size()) || !is_in_order) {
        slice_.clear();
        return false;
    }
    is_order_old_ = true;
    first_ = limit.stream;
    return true;
}

// Up to where all events are known: to the end of the first run, of all that are made long now, or to another message.
TimeSlice::Limit Merge::find_limit() {
    const std::size_t few = events_at_once(found_.size()) / 2;
    TimeSlice::Limit limit;
    for (std::size_t stream = 0; stream < found_.size(); ++stream) {
        FoundRun& found = found_[stream];
        if (found.next == nullptr) {
            if (heads_[stream].source == stream) limit = std::min(limit, {heads_[stream].time_ns, stream});
            continue;
        }
        if (found.may_have_more && found.size() <= few) {
            found.may_have_more = readers_[stream].find_more(found.size());
            found.have(readers_[stream].found());
        }
        limit = std::min(limit, {found.end[-1].time_ns, stream});
    }
    return limit;
}

void Merge::tell_slice() {
    events_ = slice_.tell(found_, batch_);
    now_ns_ = events_.back().place->time_ns;
    if (!slice_.is_told()) return;
    slice_.pass(found_);
    is_read_ = found_[first_].next == nullptr || found_[first_].size() != 0;
}

// Goes on after an event of a stream, as long as no other stream may come first and time does not go back. Returns how
// many events it has added.
[[gnu::always_inline]] inline std::size_t Merge::tell_in_a_row(FoundRun& found, std::int64_t others_ns,
                                                               std::span<FoundEvent> batch) {
    std::int64_t now_ns = found.next[-1].time_ns;
    std::size_t count = 0;
    for (; count < batch.size(); ++found.next) {
        if (found.next->time_ns < now_ns || found.next->time_ns >= others_ns) break;
        now_ns = found.next->time_ns;
        batch[count++] = {found.packet, found.next};
    }
    found.after_next_ns = found.next[1].time_ns;
    return count;
}

// Those that no event can precede that is not found yet: until a stream has no more, or tells of something else, or
// goes back in time, or far ahead. Behind the last that was found, time goes back. The tree may have to be built anew:
// after the loop, which calls nothing, so that the tree is in registers.
void Merge::gather_events() {
    LoserTree order = std::move(order_);
    const std::span<FoundRun> founds = found_;
    const std::span<FoundEvent> batch = batch_;
    std::optional<std::int64_t> unusual_ns;
    std::int64_t now_ns = now_ns_;
    std::uint64_t source_before = LoserTree::kEnded.source;
    unsigned in_a_row = 0;
    std::size_t count = 0;
    while (count < kMostEvents) {
        const std::uint64_t source = order.first_source();
        FoundRun& found = founds[source];
        if (found.next == nullptr) break;
        now_ns = found.next->time_ns;
        batch[count++] = {found.packet, found.next++};
        std::int64_t next_ns = std::exchange(found.after_next_ns, found.next[1].time_ns);
        in_a_row = (in_a_row + 1) * static_cast<unsigned>(source == source_before);  // without a branch
        source_before = source;
        if (in_a_row >= kManyInARow) {
            count += tell_in_a_row(found, order.others_from_ns(), batch.subspan(count));
            now_ns = found.next[-1].time_ns;
            next_ns = found.next->time_ns;
        }
        // Many streams take turns: when it is this one's again, what it looks at then would have left the cache.
        __builtin_prefetch(&found.next[2].time_ns);
        if (next_ns < now_ns || !order.delay_first(next_ns)) {
            unusual_ns = next_ns;
            break;
        }
    }
    order_ = std::move(order);
    if (unusual_ns) {
        first_ = order_.first_source();
        const FoundRun& found = founds[first_];
        is_read_ = found.next != found.end;
        if (is_read_) order_.replace_first(*unusual_ns);
    }
    pace_.note_told_by_tree(count);
    now_ns_ = now_ns;
    events_ = batch.first(count);
}

Result<void> Merge::check_order() {
    const FoundRun& found = found_[first_];
    const std::int64_t time_ns = found.next != nullptr ? found.next->time_ns : message().time_ns.value_or(now_ns_);
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
