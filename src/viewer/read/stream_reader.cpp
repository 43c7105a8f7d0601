#include "viewer/read/stream_reader.hpp"

#include <utility>

namespace leat::viewer {

namespace {

// Whether a field below this one is a time that goes on from the one before, which must have been read.
bool has_narrow_time(const ctf::DecodePlan& plan, std::uint32_t index) {
    const ctf::PlanNode& node = plan.nodes[index];
    if (node.is_timestamp && node.size < 64) return true;
    for (std::uint32_t i = 0; i < node.child_count; ++i)
        if (has_narrow_time(plan, node.first_child + i)) return true;
    return false;
}

}  // namespace

bool has_narrow_time(const ctf::DecodePlan& plan) {
    return (plan.packet_header && has_narrow_time(plan, *plan.packet_header)) ||
           (plan.packet_context && has_narrow_time(plan, *plan.packet_context));
}

// Only a packet whose end the next one confirms: some have events behind what they call their end, or no end yet. An
// event at the begin of the next one may be of either.
void StreamReader::pass_over_before(std::int64_t time_ns) {
    const auto& packets = stream_->packets;
    if (packets.size() < 2 || has_narrow_time(*stream_->plan)) return;
    for (; next_packet_ + 1 < packets.size(); ++next_packet_) {
        const ctf::PacketProperties& packet = packets[next_packet_].properties;
        const ctf::PacketProperties& following = packets[next_packet_ + 1].properties;
        if (packet.end_cycles.value_or(0) == 0 || !packet.end_ns || *packet.end_ns >= time_ns) return;
        if (!following.begin_ns || *following.begin_ns < *packet.end_ns || *following.begin_ns >= time_ns) return;
        reader_.pass_over(packet);
        bytes_begun_ += packet.packet_size;
    }
}

std::uint64_t StreamReader::bytes_in_all() const {
    std::uint64_t bytes = 0;
    for (const RecordedPacket& packet : stream_->packets) bytes += packet.properties.packet_size;
    return bytes;
}

Result<bool> StreamReader::next() {
    while (true) {
        auto is_message = reader_.next();
        // Then what was read may be zeros, and any error comes from that.
        if (packet_ != nullptr && packet_->file->mapping.was_shortened()) return became_shorter(*packet_->file);
        if (is_message && !*is_message) {
            if (next_packet_ == stream_->packets.size()) {
                if (std::exchange(is_finished_, true)) return false;
                reader_.finish();
                continue;
            }
            packet_ = &stream_->packets[next_packet_++];
            bytes_begun_ += packet_->properties.packet_size;
            const MappedFile& mapping = packet_->file->mapping;
            auto started = reader_.start(*trace_class_, *stream_->plan, mapping.bytes().subspan(packet_->offset),
                                         packet_->offset, &mapping);
            if (started) continue;
            is_message = tl::unexpected(std::move(started).error());
        }
        if (!is_message) return wrap(packet_->file->path.string(), std::move(is_message).error());
        return true;
    }
}

}  // namespace leat::viewer
