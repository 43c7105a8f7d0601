// Event headers: how a record begins. The one place that states their bytes; writers, walker, re-stamping, metadata and
// tests take them from here. See docs/formats/ring.md, "Records".
//
// Freestanding: the tracer library includes this.
#pragma once

#include <stdint.h>

namespace leat::ring {

// A header has a short form, and an extended one for large ids and long gaps. Little-endian, packed:
//
//                | bytes 0 ...                                              | size
//     compact    | u32: id in the lowest 5 bits, time in the other 27       |  4
//       extended | u8: 31           | u32: id           | u64: time         | 13
//     large      | u16: id          | u32: time                             |  6
//       extended | u16: 0xffff      | u32: id           | u64: time         | 14
//
// A short time is what its bits hold of the ns: readers count it from the record before. An id of all ones in the short
// form's place marks the extended form, so ids that large always take it.
enum class HeaderKind : uint32_t { kCompact, kLarge };

// The extended form, after its tag.
inline constexpr uint64_t kExtendedIdSize = 4;    // bytes
inline constexpr uint64_t kExtendedTimeSize = 8;  // bytes
inline constexpr uint64_t kExtendedTail = kExtendedIdSize + kExtendedTimeSize;

struct RecordHeaderLayout {
    unsigned id_bits;     // of the short form, its lowest
    uint64_t short_size;  // bytes of the short form; the bits that are not the id's are the time's
    uint64_t tag_size;    // bytes at the start of the extended form that hold all_ones()

    [[nodiscard]] constexpr uint64_t all_ones() const { return (1ULL << id_bits) - 1; }
    [[nodiscard]] constexpr unsigned time_bits() const { return static_cast<unsigned>(short_size) * 8 - id_bits; }
    // ns after which a short time begins again from 0: gaps this long need the extended form.
    [[nodiscard]] constexpr uint64_t time_period() const { return 1ULL << time_bits(); }
    [[nodiscard]] constexpr uint64_t extended_time_offset() const { return tag_size + kExtendedIdSize; }
    [[nodiscard]] constexpr uint64_t extended_size() const { return tag_size + kExtendedTail; }

    // What a short form says of the time, counted from the record before it, which was at `previous`; ns.
    [[nodiscard]] constexpr uint64_t short_timestamp(uint64_t short_form, uint64_t previous) const {
        return previous + (((short_form >> id_bits) - previous) & (time_period() - 1));
    }
};

inline constexpr RecordHeaderLayout kCompactHeader{.id_bits = 5, .short_size = 4, .tag_size = 1};
inline constexpr RecordHeaderLayout kLargeHeader{.id_bits = 16, .short_size = 6, .tag_size = 2};

constexpr const RecordHeaderLayout& header_layout(HeaderKind kind) {
    return kind == HeaderKind::kCompact ? kCompactHeader : kLargeHeader;
}

inline constexpr uint64_t kMinRecordSize = kCompactHeader.short_size;
inline constexpr uint64_t kMaxHeaderSize = kLargeHeader.extended_size();
static_assert(kMinRecordSize <= kLargeHeader.short_size && kMaxHeaderSize >= kCompactHeader.extended_size());
// Part of the ring's format: other numbers need a new kRingSetVersion.
static_assert(kCompactHeader.time_bits() == 27 && kCompactHeader.all_ones() == 31);
static_assert(kCompactHeader.extended_size() == 13);
static_assert(kLargeHeader.time_bits() == 32 && kLargeHeader.all_ones() == 0xffff);
static_assert(kLargeHeader.extended_size() == 14);

// What a writer needs to know of a header kind, worked out beforehand.
// Short form: one little-endian value, id + timestamp * timestamp_factor, cut to short_size bytes.
// Extended form, for ids from `tag` on and gaps from `gap_limit` on: tag, 32-bit id, 64-bit timestamp.
struct HeaderForm {
    uint64_t gap_limit;         // ns since the record before
    uint64_t timestamp_factor;  // 2^bits of the id
    uint64_t short_size;        // bytes
    uint64_t tag;
    uint64_t tag_size;  // bytes
};

constexpr HeaderForm header_form(HeaderKind kind) {
    const RecordHeaderLayout& layout = header_layout(kind);
    return {.gap_limit = layout.time_period(),
            .timestamp_factor = 1ULL << layout.id_bits,
            .short_size = layout.short_size,
            .tag = layout.all_ones(),
            .tag_size = layout.tag_size};
}

}  // namespace leat::ring
