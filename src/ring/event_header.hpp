// Event headers: how a record begins. See docs/formats/ring.md, "Records".
//
// Freestanding: the tracer library includes this.
#pragma once

#include <stdint.h>

namespace leat::ring {

enum class HeaderKind : uint32_t {
    kCompact,  // 5-bit id + 27-bit time in 4 bytes; extended form 13 bytes
    kLarge,    // 16-bit id + 32-bit time in 6 bytes; extended form 14 bytes
};

// Everything that a writer needs to begin the records of one event class, worked out beforehand.
// Short form: one little-endian value, id + timestamp * timestamp_factor, cut to short_size bytes.
// Extended form: tag, 32-bit id, 64-bit timestamp.
struct EventHeader {
    uint64_t gap_limit;         // ns since the record before, from which on the extended form is needed; 0: always
    uint64_t timestamp_factor;  // 2^bits of the id
    uint64_t id;
    uint64_t short_size;  // bytes
    uint64_t tag;         // of the extended form
    uint64_t tag_size;    // bytes
};

constexpr EventHeader event_header(HeaderKind kind, uint32_t id) {
    if (kind == HeaderKind::kCompact)
        return {.gap_limit = id < 31 ? 1ULL << 27 : 0,
                .timestamp_factor = 1U << 5,
                .id = id,
                .short_size = 4,
                .tag = 31,
                .tag_size = 1};
    return {.gap_limit = id < 0xffff ? 1ULL << 32 : 0,
            .timestamp_factor = 1U << 16,
            .id = id,
            .short_size = 6,
            .tag = 0xffff,
            .tag_size = 2};
}

// Bytes of the extended form behind its tag: id and timestamp.
inline constexpr uint64_t kExtendedTail = 4 + 8;
inline constexpr uint64_t kMaxHeaderSize = 2 + kExtendedTail;

}  // namespace leat::ring
