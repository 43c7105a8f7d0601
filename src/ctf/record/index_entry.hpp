#pragma once

#include <cstdint>

#include "ctf/record/packet_header.hpp"

namespace leat::ctf {

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

// The entry of a packet that lies `offset` bytes into its stream file.
IndexEntry index_entry_of(const PacketHeader& packet, std::uint64_t offset);

}  // namespace leat::ctf
