#include "viewer/merge/merge.hpp"

#include <utility>

#include "viewer/read/clock_agreement.hpp"

namespace leat::viewer {
namespace {

constexpr std::size_t kMostEvents = 1024;  // are told at once
// Events of one stream, after which more of it are expected: those need not meet the other streams one by one.
constexpr unsigned kManyInARow = 8;

// Where there are many streams, what was found in all of them shall stay in the cache.
std::size_t events_at_once(std::size_t streams) {
    constexpr std::size_t kFewStreams = 16;
    constexpr std::size_t kManyStreams = 512;
    if (streams <= kFewStreams) return 2 * PacketReader::kEventsAtOnce;
    return streams < kManyStreams ? PacketReader::kEventsAtOnce : PacketReader::kEventsAtOnce / 2;
}

}  // namespace

Result<Merge> Merge::make(const RecordedTraces& traces, std::int64_t from_ns) {
    ClockAgreement agreement;
    for (const auto& trace : traces)
        for (const RecordedStream& stream : trace->streams())
            if (stream.plan->clock != nullptr) LEAT_TRY(agreement.add(trace->trace_class(), *stream.plan->clock));
    return Merge(traces, from_ns);
}

Merge::Merge(const RecordedTraces& traces, std::int64_t from_ns) {
    std::size_t streams = 0;
    for (const auto& trace : traces) streams += trace->streams().size();
    readers_.reserve(streams);
    for (const auto& trace : traces)
        for (const RecordedStream& stream : trace->streams())
            readers_.emplace_back(*trace, stream, events_at_once(streams)).pass_over_before(from_ns);
    found_.resize(readers_.size());
    batch_.resize(kMostEvents);
}

Result<bool> Merge::next() {
    if (!std::exchange(has_begun_, true))
        LEAT_TRY(begin());
    else if (!is_read_ && !order_.has_ended())
        LEAT_TRY(read_on());
    is_read_ = true;
    events_ = {};
    if (order_.has_ended()) return false;
    LEAT_TRY(check_order());
    if (found_[order_.first().source].next != nullptr) {
        gather_events();
    } else {
        const Message& message = this->message();
        if (message.kind == Message::Kind::kEvent) {
            batch_.front() = {message.packet, &message.place};
            events_ = std::span(batch_).first(1);
        }
        is_read_ = false;
    }
    return true;
}

Result<void> Merge::begin() {
    std::vector<LoserTree::Entry> entries;
    for (std::size_t reader = 0; reader < readers_.size(); ++reader) {
        const std::optional<std::int64_t> time_ns = LEAT_TRY(read(reader));
        entries.push_back(time_ns ? LoserTree::Entry{*time_ns, reader} : LoserTree::kEnded);
    }
    order_ = LoserTree(entries);
    return {};
}

Result<void> Merge::read_on() {
    const std::optional<std::int64_t> time_ns = LEAT_TRY(read(order_.first().source));
    time_ns ? order_.replace_first(*time_ns) : order_.end_first();
    return {};
}

Result<std::optional<std::int64_t>> Merge::read(std::size_t index) {
    StreamReader& reader = readers_[index];
    Found& found = found_[index];
    if (found.next != nullptr) reader.take_found();
    found = {};
    if (!LEAT_TRY(reader.next())) return std::optional<std::int64_t>();
    const Message& message = reader.message();
    if (message.kind == Message::Kind::kEvent && message.time_ns) {
        const std::span<const ctf::EventPlace> places = reader.found();
        found = {message.packet, places.data(), places.data() + places.size(), places.data()[1].time_ns};
    }
    return message.time_ns.value_or(LoserTree::kNoTime);
}

// Goes on after an event of a stream, as long as no other stream may come first and time does not go back. Returns how
// many events it has added.
[[gnu::always_inline]] inline std::size_t Merge::tell_in_a_row(Found& found, std::int64_t others_ns,
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
    const std::span<Found> founds = found_;
    const std::span<FoundEvent> batch = batch_;
    std::optional<std::int64_t> unusual_ns;
    std::int64_t now_ns = now_ns_;
    std::uint64_t source_before = LoserTree::kEnded.source;
    unsigned in_a_row = 0;
    std::size_t count = 0;
    while (count < kMostEvents) {
        const std::uint64_t source = order.first_source();
        Found& found = founds[source];
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
        const Found& found = founds[order_.first_source()];
        is_read_ = found.next != found.end;
        if (is_read_) order_.replace_first(*unusual_ns);
    }
    now_ns_ = now_ns;
    events_ = batch.first(count);
}

Result<void> Merge::check_order() {
    const auto& [first_ns, reader] = order_.first();
    const std::int64_t time_ns = found_[reader].next != nullptr ? first_ns : message().time_ns.value_or(now_ns_);
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
