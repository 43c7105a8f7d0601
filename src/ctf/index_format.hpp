// LTTng's index files, version 1.1: where each packet of a stream file lies, and what time it covers.
// All values are big-endian. (facts: on-disk formats, section 4)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ctf/packet_header.hpp"

namespace leat::ctf {

inline constexpr std::uint32_t kIndexMagic = 0xC1F1DCC1;
inline constexpr std::uint32_t kIndexMajor = 1;
inline constexpr std::uint32_t kIndexMinor = 1;
inline constexpr std::size_t kIndexHeaderSize = 16;
inline constexpr std::size_t kIndexEntrySize = 72;

std::array<std::byte, kIndexHeaderSize> encode_index_header();

// The entry of a packet that lies `offset` bytes into its stream file.
std::array<std::byte, kIndexEntrySize> encode_index_entry(std::uint64_t offset, const PacketHeader& packet);

}  // namespace leat::ctf
