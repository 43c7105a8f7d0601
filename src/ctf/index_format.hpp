// LTTng's index files, version 1.1: where each packet of a stream file lies, and what time it covers.
// All values are big-endian. (facts: on-disk formats, section 4)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/record/packet_header.hpp"

namespace leat::ctf {

inline constexpr std::uint32_t kIndexMagic = 0xC1F1DCC1;
inline constexpr std::uint32_t kIndexMajor = 1;
inline constexpr std::uint32_t kIndexMinor = 1;
inline constexpr std::size_t kIndexHeaderSize = 16;
inline constexpr std::size_t kIndexEntrySize = 72;
inline constexpr std::size_t kIndexEntrySize10 = 56;  // version 1.0: without the last two

// Where a packet lies and what it covers. In the order of its bytes.
struct IndexEntry {
    // Bytes from the start of the stream file; kLostOffset: the packet was lost on its way.
    std::uint64_t offset = 0;
    std::uint64_t packet_size = 0;   // bits
    std::uint64_t content_size = 0;  // bits
    std::uint64_t timestamp_begin = 0;
    std::uint64_t timestamp_end = 0;
    std::uint64_t events_discarded = 0;  // since the stream began
    std::uint64_t stream_class_id = 0;
    std::uint64_t stream_instance_id = kUnknown;
    std::uint64_t packet_seq_num = kUnknown;

    static constexpr std::uint64_t kLostOffset = ~std::uint64_t{0};
    static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
    [[nodiscard]] bool is_lost() const { return offset == kLostOffset; }
    bool operator==(const IndexEntry&) const = default;
};

// `minor` 0: of a file with entries of kIndexEntrySize10 bytes, the first of the 72.
std::array<std::byte, kIndexHeaderSize> encode_index_header(std::uint32_t minor = kIndexMinor);
std::array<std::byte, kIndexEntrySize> encode_index_entry(const IndexEntry& entry);

// The entry of a packet that lies `offset` bytes into its stream file.
IndexEntry index_entry_of(const PacketHeader& packet, std::uint64_t offset);

// Bytes from one entry to the next, in a file that begins so: version 1.0 has shorter ones.
Result<std::size_t> parse_index_header(UntrustedBytes bytes);
// `bytes`: as many as the header said.
Result<IndexEntry> parse_index_entry(UntrustedBytes bytes);

}  // namespace leat::ctf
