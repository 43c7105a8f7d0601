#include "viewer/check/stream_check.hpp"

#include <algorithm>
#include <string>

#include "base/result.hpp"

namespace leat::viewer {
namespace {

UntrustedBytes bytes_of(const RecordedPacket& packet) {
    return packet.file->mapping.bytes().subspan(packet.offset, packet.properties.packet_size);
}

// Padding may differ: nobody reads it.
bool is_equal(const RecordedPacket& left, const RecordedPacket& right) {
    const std::uint64_t content = (left.properties.content_bits + 7) / 8;
    return std::ranges::equal(bytes_of(left).first(content), bytes_of(right).first(content));
}

}  // namespace

// A viewer passes over a packet that is a twin of the last one that it read, and reads any other: so does this.
void StreamCheck::run(std::span<const RecordedPacket> packets) {
    for (const RecordedPacket& packet : packets) {
        progress_->add(packet.properties.packet_size);
        if (!latest_.empty() && are_twins(*latest_.front(), packet)) {
            take_again(packet);
            continue;
        }
        auto is_taken = take(packet);
        if (!is_taken) drop(packet, std::move(is_taken).error().message);
    }
}

void StreamCheck::take_again(const RecordedPacket& packet) {
    const RecordedPacket& taken = *latest_.front();
    if (is_equal(taken, packet)) return latest_.push_back(&packet);
    drop(packet, fmt::format("the packet is not equal to that at offset {} of {}, which is the same one", taken.offset,
                             taken.file->path.string()));
}

// If that makes the one before it a packet that overlaps, and ends later, it drops that one.
Result<void> StreamCheck::take(const RecordedPacket& packet) {
    ReadSoFar next = now_;
    auto is_read = read(next, packet);
    if (is_read) {
        before_ = std::exchange(now_, std::move(next));
        before_latest_ = latest_.empty() ? nullptr : latest_.front();
        ++packets_;
    } else {
        ReadSoFar without_latest = before_;
        if (latest_.empty() || !read(without_latest, packet) || without_latest.last_ns >= now_.last_ns) return is_read;
        if (before_latest_ != nullptr && are_twins(*before_latest_, packet)) return is_read;
        for (const RecordedPacket* const latest : latest_)
            drop(*latest, "the packet ends after the begin of the next, which ends before it");
        now_ = std::move(without_latest);
    }
    latest_ = {&packet};
    return {};
}

Result<void> StreamCheck::read(ReadSoFar& so_far, const RecordedPacket& packet) const {
    const UntrustedBytes rest = packet.file->mapping.bytes().subspan(packet.offset);
    LEAT_TRY(so_far.reader.start(*trace_class_, *plan_, rest, packet.offset));
    while (LEAT_TRY(so_far.reader.next())) {
        const Message& message = so_far.reader.message();
        const std::int64_t time_ns = message.time_ns.value_or(so_far.last_ns);
        if (time_ns < so_far.last_ns)
            return corrupt("time goes back by {} ns in the packet, or from the one before it",
                           static_cast<std::uint64_t>(so_far.last_ns) - static_cast<std::uint64_t>(time_ns));
        so_far.last_ns = time_ns;
        if (message.kind == Message::Kind::kEvent) ++so_far.events;
    }
    if (packet.file->mapping.was_shortened()) return corrupt("it has become shorter while it was read");
    return {};
}

void StreamCheck::drop(const RecordedPacket& packet, std::string why) {
    findings_->add(packet.file->path, packet.offset, std::move(why));
    bad_->emplace(packet.file, packet.offset);
}

}  // namespace leat::viewer
