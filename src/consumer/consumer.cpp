#include "consumer/consumer.hpp"

#include <algorithm>

namespace leat::consumer {

Consumer::Consumer(const ring::RingSet& rings, const ctf::RecordWalker& walker, Output& output,
                   const Parameters& parameters)
    : walker_(&walker), output_(&output), parameters_(parameters) {
    for (std::uint32_t ring = 0; ring < rings.geometry().ring_count(); ++ring) {
        Stream stream{.reader = rings.reader(ring), .ring = ring};
        // The first packet begins when the ring was made: the first record's gap counts from there.
        if (const auto published = stream.reader.published()) stream.timestamp = published->last_timestamp;
        stream.reader.release(0, parameters_.wake_after);
        streams_.push_back(stream);
    }
}

Result<void> Consumer::drain() {
    Result<void> outcome;
    for (Stream& stream : streams_) {
        if (stream.is_quarantined) continue;
        auto drained = drain(stream);
        if (!drained && outcome) outcome = std::move(drained);
    }
    return outcome;
}

Result<void> Consumer::drain(Stream& stream) {
    const auto published = stream.reader.published();
    if (!published) {
        quarantine(stream, published.error().message);
        return {};
    }
    if (published->records.empty()) {
        stream.reader.release(published->head, parameters_.wake_after);
        return {};
    }
    const std::uint64_t discarded = stream.reader.discarded();
    const ctf::RecordWalker::Walked walked = walker_->walk(published->records);
    const bool is_whole = walked.bytes == published->records.size();
    if (walked.bytes != 0) LEAT_TRY(write(stream, published->records.first(walked.bytes), published->last_timestamp));
    totals_.events += walked.records;
    stream.discarded = std::max(stream.discarded, discarded);
    if (is_whole)
        stream.reader.release(published->head, parameters_.wake_after);
    else
        quarantine(stream, fmt::format("{} bytes in it are no event record", published->records.size() - walked.bytes));
    return {};
}

Result<void> Consumer::finish() {
    Result<void> outcome;
    for (Stream& stream : streams_) {
        auto finished = finish(stream);
        if (!finished && outcome) outcome = std::move(finished);
    }
    return outcome;
}

Result<void> Consumer::finish(Stream& stream) {
    const auto left = stream.is_quarantined ? Result<ring::Published>() : stream.reader.published();
    if (left) totals_.left_in_rings += walker_->walk(left->records).records;
    const std::uint64_t discarded = std::max(stream.discarded, stream.reader.discarded());
    if (discarded == stream.discarded_told) return {};
    // A reader that meets a count in its very first packet cannot tell how many: there it takes a packet more.
    if (stream.sequence_number == 0) {
        stream.discarded = 0;
        LEAT_TRY(write(stream, {}, stream.timestamp));
    }
    stream.discarded = discarded;
    return write(stream, {}, stream.timestamp);
}

Result<void> Consumer::write(Stream& stream, UntrustedBytes records, std::uint64_t timestamp_end) {
    const std::uint64_t bits = (ctf::kPacketHeaderSize + records.size()) * 8;
    const Packet packet{.header = {.uuid = parameters_.trace_uuid,
                                   .stream_id = static_cast<std::uint32_t>(parameters_.stream_class_id),
                                   .stream_instance_id = stream.ring,
                                   .timestamp_begin = stream.timestamp,
                                   .timestamp_end = timestamp_end,
                                   .content_size = bits,
                                   .packet_size = bits,
                                   .packet_seq_num = stream.sequence_number,
                                   .events_discarded = stream.discarded,
                                   .cpu_id = stream.ring},
                        .records = records};
    LEAT_TRY(output_->write_packet(packet));
    stream.timestamp = timestamp_end;
    stream.discarded_told = stream.discarded;
    if (stream.sequence_number++ == 0) ++totals_.streams;
    ++totals_.packets;
    totals_.bytes += bits / 8;
    return {};
}

void Consumer::quarantine(Stream& stream, const std::string& why) {
    stream.is_quarantined = true;
    quarantined_.push_back(fmt::format("ring {}: {}", stream.ring, why));
}

std::uint64_t Consumer::discarded() const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.reader.discarded();
    return sum;
}

std::uint64_t Consumer::discarded(ring::DiscardReason reason) const {
    std::uint64_t sum = 0;
    for (const Stream& stream : streams_) sum += stream.reader.discarded(reason);
    return sum;
}

}  // namespace leat::consumer
