#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

// Metadata packets as LTTng's peers exchange them ([CTF-1.8], section 7.1; docs/formats/relay-ingest.md,
// SEND_METADATA): 4096 bytes each, a 37-byte header in front of the text.
inline constexpr std::uint32_t kMetadataMagic = 0x75D11D57;
inline constexpr std::size_t kMetadataPacketSize = 4096;
inline constexpr std::size_t kMetadataPacketHeaderSize = 37;

struct MetadataPackets {
    std::vector<std::byte> bytes;  // whole packets, the last one only to the end of its text
    std::uint32_t padding_size;    // how many zeros would complete the last packet
};

// `text` is one or several whole metadata units.
MetadataPackets packetize_metadata(std::string_view text, const Uuid& uuid);

}  // namespace leat::ctf
