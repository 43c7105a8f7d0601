#include "ctf/index_format.hpp"

#include <endian.h>

#include <cstring>
#include <initializer_list>

namespace leat::ctf {

std::array<std::byte, kIndexHeaderSize> encode_index_header() {
    std::array<std::byte, kIndexHeaderSize> bytes{};
    std::byte* at = bytes.data();
    for (const std::uint32_t value :
         {kIndexMagic, kIndexMajor, kIndexMinor, static_cast<std::uint32_t>(kIndexEntrySize)}) {
        const std::uint32_t big_endian = htobe32(value);
        std::memcpy(at, &big_endian, sizeof big_endian);
        at += sizeof big_endian;
    }
    return bytes;
}

std::array<std::byte, kIndexEntrySize> encode_index_entry(std::uint64_t offset, const PacketHeader& packet) {
    std::array<std::byte, kIndexEntrySize> bytes{};
    std::byte* at = bytes.data();
    for (const std::uint64_t value :
         {offset, packet.packet_size, packet.content_size, packet.timestamp_begin, packet.timestamp_end,
          packet.events_discarded, std::uint64_t{packet.stream_id}, packet.stream_instance_id, packet.packet_seq_num}) {
        const std::uint64_t big_endian = htobe64(value);
        std::memcpy(at, &big_endian, sizeof big_endian);
        at += sizeof big_endian;
    }
    return bytes;
}

}  // namespace leat::ctf
