#include "ctf/metadata/metadata_packets.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace leat::ctf {
namespace {

constexpr std::size_t kTextInPacket = kMetadataPacketSize - kMetadataPacketHeaderSize;

template <class T>
void put(std::vector<std::byte>& bytes, const T& value) {
    const std::size_t offset = bytes.size();
    bytes.resize(offset + sizeof value);
    std::memcpy(bytes.data() + offset, &value, sizeof value);
}

void append_packet(std::vector<std::byte>& bytes, std::string_view text, const Uuid& uuid) {
    put(bytes, kMetadataMagic);
    put(bytes, uuid);
    put(bytes, std::uint32_t{0});  // checksum: none
    put(bytes, static_cast<std::uint32_t>((kMetadataPacketHeaderSize + text.size()) * 8));
    put(bytes, static_cast<std::uint32_t>(kMetadataPacketSize * 8));
    put(bytes, std::array<std::uint8_t, 5>{0, 0, 0, 1, 8});  // compression, encryption, checksum scheme; CTF 1.8
    const auto raw = std::as_bytes(std::span(text));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
}

}  // namespace

MetadataPackets packetize_metadata(std::string_view text, const Uuid& uuid) {
    MetadataPackets packets{};
    while (!text.empty()) {
        append_packet(packets.bytes, text.substr(0, kTextInPacket), uuid);
        text.remove_prefix(std::min(text.size(), kTextInPacket));
    }
    const std::size_t beyond = packets.bytes.size() % kMetadataPacketSize;
    packets.padding_size = static_cast<std::uint32_t>(beyond == 0 ? 0 : kMetadataPacketSize - beyond);
    return packets;
}

}  // namespace leat::ctf
