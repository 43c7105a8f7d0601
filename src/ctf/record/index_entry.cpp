#include "ctf/record/index_entry.hpp"

namespace leat::ctf {

IndexEntry index_entry_of(const PacketHeader& packet, std::uint64_t offset) {
    return {.offset = offset,
            .packet_size = packet.packet_size,
            .content_size = packet.content_size,
            .timestamp_begin = packet.timestamp_begin,
            .timestamp_end = packet.timestamp_end,
            .events_discarded = packet.events_discarded,
            .stream_class_id = packet.stream_id,
            .stream_instance_id = packet.stream_instance_id,
            .packet_seq_num = packet.packet_seq_num};
}

}  // namespace leat::ctf
