// What precedes the event records in each packet that we write: packet header and packet context.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

inline constexpr std::uint32_t kPacketMagic = 0xC1FC1FC1;

// The values in byte order. Encoded, they are packed and little-endian, and take kPacketHeaderSize bytes.
struct PacketHeader {
    Uuid uuid{};
    std::uint32_t stream_id = 0;
    std::uint64_t stream_instance_id = 0;
    std::uint64_t timestamp_begin = 0;  // ns of the trace clock
    std::uint64_t timestamp_end = 0;
    std::uint64_t content_size = 0;  // bits, this header included
    std::uint64_t packet_size = 0;   // bits; we write no padding
    std::uint64_t packet_seq_num = 0;
    std::uint64_t events_discarded = 0;    // since the stream began
    std::uint32_t cpu_or_thread_ring = 0;  // as packet_context_class() names it
};

inline constexpr std::size_t kPacketHeaderSize = 4 + 16 + 4 + 8 + 6 * 8 + 4;

std::array<std::byte, kPacketHeaderSize> encode(const PacketHeader& header);

// How the metadata describes it: `trace.packet.header`, and `stream.packet.context` with timestamps of `clock`.
StructClass packet_header_class();
// `owner` is the name of the last member, a 32-bit number: "cpu_id" if rings belong to CPUs, otherwise "thread_ring".
StructClass packet_context_class(const std::string& clock, const std::string& owner);

}  // namespace leat::ctf
