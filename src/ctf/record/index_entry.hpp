#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ctf/record/packet_header.hpp"

namespace leat::ctf {

// Where a packet lies and what it covers.
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

// The fields of an entry in byte order. Index files and messages hold a run of consecutive fields of this list; each
// says which run.
inline constexpr std::array kIndexEntryFields{
    &IndexEntry::offset,          &IndexEntry::packet_size,        &IndexEntry::content_size,
    &IndexEntry::timestamp_begin, &IndexEntry::timestamp_end,      &IndexEntry::events_discarded,
    &IndexEntry::stream_class_id, &IndexEntry::stream_instance_id, &IndexEntry::packet_seq_num};
static_assert(kIndexEntryFields.size() * sizeof(std::uint64_t) == sizeof(IndexEntry), "a field is not listed");
// The first index format of LTTng had these seven. The other two were added later.
inline constexpr std::size_t kFirstIndexEntryFields = 7;

// The entry of a packet that lies `offset` bytes into its stream file.
IndexEntry index_entry_of(const PacketHeader& packet, std::uint64_t offset);

}  // namespace leat::ctf
