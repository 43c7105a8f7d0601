// LTTng's index files, version 1.1: where each packet of a stream file lies, and what time it covers.
// All values are big-endian. (facts: on-disk formats, section 4)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/record/index_entry.hpp"

namespace leat::trace {

inline constexpr std::uint32_t kIndexMagic = 0xC1F1DCC1;
inline constexpr std::uint32_t kIndexMajor = 1;
inline constexpr std::uint32_t kIndexMinor = 1;
inline constexpr std::size_t kIndexHeaderSize = 16;
inline constexpr std::size_t kIndexEntrySize = 72;
inline constexpr std::size_t kIndexEntrySize10 = 56;  // version 1.0: without the last two

// `minor` 0: of a file with entries of kIndexEntrySize10 bytes, the first of the 72.
std::array<std::byte, kIndexHeaderSize> encode_index_header(std::uint32_t minor = kIndexMinor);
std::array<std::byte, kIndexEntrySize> encode_index_entry(const ctf::IndexEntry& entry);

// Bytes from one entry to the next, in a file that begins so: version 1.0 has shorter ones.
Result<std::size_t> parse_index_header(UntrustedBytes bytes);
// `bytes`: as many as the header said.
Result<ctf::IndexEntry> parse_index_entry(UntrustedBytes bytes);

}  // namespace leat::trace
