// The time in the header of an event record that our tracer wrote: reading it, and writing another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/byte_cursor.hpp"
#include "ring/event_header.hpp"

namespace leat::ctf {

// A record's header, as bytes.
struct RecordHeaderBytes {
    std::array<std::byte, ring::kMaxHeaderSize> storage{};
    std::size_t size = 0;

    UntrustedBytes bytes() const&& = delete;  // they are inside
    [[nodiscard]] UntrustedBytes bytes() const& { return UntrustedBytes(storage).first(size); }
};

// The header that `record` begins with, copied: programs may write over a ring at any time, but not over this. Of bytes
// that are missing, it has zeros.
RecordHeaderBytes copy_header(const ring::RecordHeaderLayout& layout, UntrustedBytes record);
// When the record happened, ns; short headers count from the record before it, which was at `previous`.
std::uint64_t record_timestamp(const ring::RecordHeaderLayout& layout, const RecordHeaderBytes& header,
                               std::uint64_t previous);
// The same header with another time, which short headers cut to what they hold.
RecordHeaderBytes with_timestamp(const ring::RecordHeaderLayout& layout, const RecordHeaderBytes& header,
                                 std::uint64_t timestamp);

}  // namespace leat::ctf
