// Reads and replaces the timestamp in the header of an event record that our tracer wrote.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/byte_cursor.hpp"
#include "ring/event_header.hpp"

namespace leat::ctf {

// The bytes of a record's header.
struct RecordHeaderBytes {
    std::array<std::byte, ring::kMaxHeaderSize> storage{};
    std::size_t size = 0;

    UntrustedBytes bytes() const&& = delete;  // they would outlive the storage
    [[nodiscard]] UntrustedBytes bytes() const& { return UntrustedBytes(storage).first(size); }
};

// Copies the header that `record` begins with: a program can overwrite its ring at any time, but not the copy. Missing
// bytes are zero.
RecordHeaderBytes copy_header(const ring::RecordHeaderLayout& layout, UntrustedBytes record);
// The time of the record, in ns: whole cycles. A short header holds only its low bits: `previous`, the time of the
// record before it, gives the rest.
std::uint64_t record_timestamp(const ring::RecordHeaderLayout& layout, const RecordHeaderBytes& header,
                               std::uint64_t previous);
// The same header with another timestamp, of which a short header keeps only the low bits.
RecordHeaderBytes with_timestamp(const ring::RecordHeaderLayout& layout, const RecordHeaderBytes& header,
                                 std::uint64_t timestamp);

}  // namespace leat::ctf
