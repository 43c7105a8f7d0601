#include "crash/step_checker.hpp"

#include <algorithm>
#include <bit>

#include "crash/step_event.hpp"
#include "ring/event_header.hpp"

namespace leat::torture {
namespace {

constexpr ring::RecordHeaderLayout kHeader = ring::kCompactHeader;
constexpr std::uint64_t kShortTime = kHeader.time_period();
using RestOfShort = std::array<std::uint8_t, kHeader.short_size - kHeader.tag_size>;

// Returns the time of a record, which is not before that of the previous record.
Result<std::uint64_t> read_header(ByteCursor& in, std::uint64_t before) {
    const auto tag = LEAT_TRY(in.read<std::uint8_t>());
    const std::uint64_t short_id = tag & kHeader.all_ones();
    if (short_id == kHeader.all_ones()) {
        const auto id = LEAT_TRY(in.read<std::uint32_t>());
        const auto timestamp = LEAT_TRY(in.read<std::uint64_t>());
        if (id != 0) return corrupt("event id {}", id);
        if (timestamp < before) return corrupt("time goes back from {} to {}", before, timestamp);
        return timestamp;
    }
    if (short_id != 0) return corrupt("event id {}", short_id);
    const auto rest = LEAT_TRY(in.read<RestOfShort>());
    const std::uint64_t word = tag | rest[0] << 8 | rest[1] << 16 | std::uint64_t{rest[2]} << 24;
    const std::uint64_t timestamp = (before & ~(kShortTime - 1)) | word >> kHeader.id_bits;
    return timestamp >= before ? timestamp : timestamp + kShortTime;
}

}  // namespace

Result<void> StepChecker::write_packet(const consumer::Packet& packet) {
    Stream& stream = streams_[packet.stream];
    auto checked = check_bounds(stream, packet.header);
    if (checked) checked = check_records(stream, packet);
    if (!checked && violation_.empty())
        violation_ = fmt::format("ring {}, packet {}: {}", packet.stream.ring, packet.header.packet_seq_num,
                                 checked.error().message);
    stream.has_begun = true;
    stream.timestamp = packet.header.timestamp_end;
    stream.sequence_number = packet.header.packet_seq_num;
    stream.discarded = packet.header.events_discarded;
    return {};
}

Result<void> StepChecker::check_bounds(Stream& stream, const ctf::PacketHeader& header) const {
    if (header.timestamp_end < header.timestamp_begin) return corrupt("it ends before it begins");
    if (!stream.has_begun) return {};
    if (header.timestamp_begin < stream.timestamp)
        return corrupt("begins at {}, and its stream was told {}", header.timestamp_begin, stream.timestamp);
    if (header.packet_seq_num != stream.sequence_number + 1) return corrupt("comes after {}", stream.sequence_number);
    if (header.events_discarded < stream.discarded)
        return corrupt("{} discarded, {} before", header.events_discarded, stream.discarded);
    return {};
}

Result<void> StepChecker::check_records(Stream& stream, const consumer::Packet& packet) {
    // The records in the order in which they are sent: late ones first, with a new time.
    std::vector<std::byte> records = packet.late_records;
    const auto others = packet.other_records();
    records.insert(records.end(), others.begin(), others.end());
    ByteCursor in(records);
    std::uint64_t timestamp = packet.header.timestamp_begin;
    while (in.remaining() != 0) {
        const std::size_t offset = in.offset();
        const auto checked = check_record(stream, in, timestamp);
        if (!checked) return wrap(fmt::format("record at byte {}", offset), checked.error());
        timestamp = *checked;
    }
    if (timestamp != packet.header.timestamp_end)
        return corrupt("its last record is of {}, it ends at {}", timestamp, packet.header.timestamp_end);
    return {};
}

Result<std::uint64_t> StepChecker::check_record(Stream& stream, ByteCursor& in, std::uint64_t timestamp) {
    timestamp = LEAT_TRY(read_header(in, timestamp));
    const auto pid = LEAT_TRY(in.read<std::int32_t>());
    const auto incarnation = LEAT_TRY(in.read<std::uint32_t>());
    const auto emitter = LEAT_TRY(in.read<std::int32_t>());
    const auto counter = LEAT_TRY(in.read<std::uint64_t>());
    const auto length = LEAT_TRY(in.read<std::uint8_t>());
    const UntrustedBytes tail = LEAT_TRY(in.take(length));

    if (incarnation >= writers_.size()) return corrupt("there is no writer {}", incarnation);
    Writer& writer = writers_[incarnation];
    if (pid != emitter) return corrupt("writer {}: process {} comes as {}", incarnation, emitter, pid);
    if (pid != writer.pid && !has_children_)
        return corrupt("writer {} is process {}, not {}", incarnation, writer.pid, pid);
    std::uint64_t& last = stream.counters[incarnation];
    if (counter <= last) return corrupt("writer {}: event {} after {}", incarnation, counter, last);
    const auto is_right = [&](std::byte byte) { return byte == std::byte{tail_byte(counter)}; };
    if (length != tail_length(counter) || !std::all_of(tail.begin(), tail.end(), is_right))
        return corrupt("writer {}, event {}: the tail is not its own", incarnation, counter);
    last = counter;
    ++writer.delivered;
    writer.highest = std::max(writer.highest, counter);
    writer.sum += counter;
    (*ledger_)[incarnation].delivered.store(writer.delivered, std::memory_order_relaxed);
    return timestamp;
}

std::uint64_t StepChecker::discarded() const {
    std::uint64_t sum = 0;
    for (const auto& [id, stream] : streams_) sum += stream.discarded;
    return sum;
}

}  // namespace leat::torture
