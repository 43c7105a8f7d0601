#include "ctf/metadata/metadata_stream.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "ctf/json/json_metadata.hpp"
#include "ctf/metadata/metadata_packets.hpp"

namespace leat::ctf {
namespace {

// The header of a metadata packet, sizes in bytes.
//
//   0      4        20         24             28            32            33           34                35      36
//   | magic | uuid   | checksum | content_size | packet_size | compression | encryption | checksum scheme | major |
//   minor |
//
// Sizes are stored in bits and include the header. That of CTF 2 goes on: three bytes without a meaning, and its own
// size ([CTF2-PMETA-1.0]). LTTng leaves both out, so the text begins where they would be.
struct MetadataPacketHeader {
    std::size_t size;
    std::size_t content_size;
    std::size_t packet_size;
};

std::uint32_t read_u32(UntrustedBytes bytes, std::size_t offset, bool is_swapped) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return is_swapped ? __builtin_bswap32(value) : value;
}

bool is_packetized(UntrustedBytes bytes, bool is_swapped) {
    return bytes.size() >= sizeof kMetadataMagic && read_u32(bytes, 0, is_swapped) == kMetadataMagic;
}

constexpr std::size_t kFullHeaderSize = 44;

std::size_t header_size_of(UntrustedBytes packet, std::size_t content_size, bool is_swapped) {
    if (packet[35] != std::byte{2} || content_size < kFullHeaderSize) return kMetadataPacketHeaderSize;
    const std::size_t bits = read_u32(packet, kFullHeaderSize - sizeof(std::uint32_t), is_swapped);
    const bool is_stated = bits % 8 == 0 && bits / 8 >= kFullHeaderSize && bits / 8 <= content_size;
    return is_stated ? bits / 8 : kMetadataPacketHeaderSize;
}

Result<MetadataPacketHeader> parse_metadata_packet_header(UntrustedBytes packet, std::size_t offset, bool is_swapped) {
    if (packet.size() < kMetadataPacketHeaderSize) return corrupt("metadata packet at offset {} is cut short", offset);
    if (read_u32(packet, 0, is_swapped) != kMetadataMagic) return corrupt("no metadata packet at offset {}", offset);
    const auto schemes = packet.subspan(32, 3);
    const bool is_plain = std::ranges::all_of(schemes, [](std::byte scheme) { return scheme == std::byte{0}; });
    if (!is_plain || read_u32(packet, 20, is_swapped) != 0)
        return unsupported("metadata packet at offset {} is compressed, encrypted or checksummed", offset);
    const std::pair version(packet[35], packet[36]);
    if (version != std::pair(std::byte{1}, std::byte{8}) && version != std::pair(std::byte{2}, std::byte{0}))
        return unsupported("metadata packet at offset {} is not of CTF 1.8 or 2", offset);
    MetadataPacketHeader header{.size = kMetadataPacketHeaderSize,
                                .content_size = read_u32(packet, 24, is_swapped) / 8,
                                .packet_size = read_u32(packet, 28, is_swapped) / 8};
    // The last packet may lack padding: that of a relay that was killed while it wrote. babeltrace2 reads it, too.
    if (header.content_size < kMetadataPacketHeaderSize || header.packet_size < header.content_size ||
        header.content_size > packet.size())
        return corrupt("metadata packet at offset {} has impossible sizes", offset);
    header.size = header_size_of(packet, header.content_size, is_swapped);
    return header;
}

Result<std::string> join_packets(UntrustedBytes bytes, bool is_swapped) {
    std::string text;
    std::size_t offset = 0;
    while (offset < bytes.size()) {
        const UntrustedBytes packet = bytes.subspan(offset);
        const MetadataPacketHeader header = LEAT_TRY(parse_metadata_packet_header(packet, offset, is_swapped));
        if (!std::ranges::equal(packet.subspan(4, 16), bytes.subspan(4, 16)))
            return corrupt("metadata packet at offset {} has another UUID than the first", offset);
        text.append(reinterpret_cast<const char*>(packet.data()) + header.size, header.content_size - header.size);
        offset += header.packet_size;
    }
    return text;
}

}  // namespace

bool is_metadata_packet(UntrustedBytes bytes) { return is_packetized(bytes, false) || is_packetized(bytes, true); }

Result<std::size_t> metadata_packet_size(UntrustedBytes bytes) {
    if (bytes.size() < kMetadataPacketHeaderSize) return 0;
    if (!is_metadata_packet(bytes)) return corrupt("no metadata packet where one should begin");
    const std::size_t size = read_u32(bytes, 28, is_packetized(bytes, true)) / 8;
    if (size < kMetadataPacketHeaderSize)
        return corrupt("metadata packet of {} bytes is smaller than its header", size);
    return size;
}

Result<std::string> parse_metadata_stream(UntrustedBytes bytes) {
    if (bytes.empty()) return corrupt("it is empty: perhaps its tracer has not written it yet");
    if (bytes.size() > kMaxMetadataSize)
        return refused("metadata has {} bytes; the limit is {}", bytes.size(), kMaxMetadataSize);
    for (const bool is_swapped : {false, true})
        if (is_packetized(bytes, is_swapped)) return join_packets(bytes, is_swapped);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with(kMetadataSignature) && !text.starts_with(kFragmentBegin))
        return corrupt("metadata begins with neither {} */ nor a packet nor a fragment of CTF 2", kMetadataSignature);
    return std::string(text);
}

}  // namespace leat::ctf
