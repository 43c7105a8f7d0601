// LTTng's index files, version 1.1: where each packet of a stream file lies, and what time it covers.
// All values are big-endian. ([LTTng-2.13], "Index files"; [RFC-live-reading], "Index generation")
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
inline constexpr std::size_t kIndexEntrySize = sizeof(std::uint64_t) * ctf::kIndexEntryFields.size();
inline constexpr std::size_t kIndexEntrySize10 = sizeof(std::uint64_t) * ctf::kFirstIndexEntryFields;  // version 1.0

// `minor` 0: for a file whose entries are only the first kIndexEntrySize10 bytes of an entry.
std::array<std::byte, kIndexHeaderSize> encode_index_header(std::uint32_t minor = kIndexMinor);
std::array<std::byte, kIndexEntrySize> encode_index_entry(const ctf::IndexEntry& entry);

// Returns the size of an entry in the file with this header: those of version 1.0 are shorter.
Result<std::size_t> parse_index_header(UntrustedBytes bytes);
// `bytes` has the size that parse_index_header() returned.
Result<ctf::IndexEntry> parse_index_entry(UntrustedBytes bytes);

}  // namespace leat::trace
