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
//     tiny       | u8: id           | u16: time, in cycles                  |  3
//       extended | u8: 255          | u32: id           | u56: time         | 12
//
// A short time is what its bits hold of the ns: readers count it from the record before. An id of all ones in the short
// form's place marks the extended form, so ids that large always take it.
//
// In tiny headers, the id takes the place of the time's lowest 8 bits. So their clock counts in cycles of 256 ns: their
// frequency is a whole number of Hz.
enum class HeaderKind : uint32_t { kCompact, kLarge, kTiny };

// The extended form, after its tag; then comes the time.
inline constexpr uint64_t kExtendedIdSize = 4;  // bytes

struct RecordHeaderLayout {
    unsigned id_bits;     // of the short form, its lowest
    uint64_t short_size;  // bytes of the short form; the bits that are not the id's are the time's
    uint64_t tag_size;    // bytes at the start of the extended form that hold all_ones()
    unsigned cycle_bits;  // of a time in ns, the lowest, which are less than a cycle of the clock

    [[nodiscard]] constexpr uint64_t all_ones() const { return (1ULL << id_bits) - 1; }
    [[nodiscard]] constexpr unsigned time_bits() const { return static_cast<unsigned>(short_size) * 8 - id_bits; }
    // ns after which a short time begins again from 0.
    [[nodiscard]] constexpr uint64_t time_period() const { return 1ULL << (time_bits() + cycle_bits); }
    [[nodiscard]] constexpr uint64_t cycle() const { return 1ULL << cycle_bits; }  // ns
    // What a header says of a time; ns.
    [[nodiscard]] constexpr uint64_t whole_cycles(uint64_t time) const { return time & ~(cycle() - 1); }
    [[nodiscard]] constexpr uint64_t cycles(uint64_t time) const { return time >> cycle_bits; }
    [[nodiscard]] constexpr uint64_t time_of(uint64_t cycles) const { return cycles << cycle_bits; }
    // ns since the record before: gaps this long need the extended form. In cycles, they may be as long as a period.
    [[nodiscard]] constexpr uint64_t gap_limit() const { return time_period() - (cycle() - 1); }
    [[nodiscard]] constexpr uint64_t extended_time_offset() const { return tag_size + kExtendedIdSize; }
    [[nodiscard]] constexpr uint64_t extended_time_size() const { return 8 - cycle_bits / 8; }  // bytes, the last
    [[nodiscard]] constexpr uint64_t extended_size() const { return extended_time_offset() + extended_time_size(); }

    // What a short form says of the time, counted from the record before it, which was at `previous`; ns.
    [[nodiscard]] constexpr uint64_t short_timestamp(uint64_t short_form, uint64_t previous) const {
        const uint64_t from = whole_cycles(previous);
        return from + (((short_form >> id_bits << cycle_bits) - from) & (time_period() - 1));
    }
    // The other way round. Bits beyond the short form's mean nothing.
    [[nodiscard]] constexpr uint64_t short_form(uint64_t id, uint64_t timestamp) const {
        return id | cycles(timestamp) << id_bits;
    }
};

inline constexpr RecordHeaderLayout kCompactHeader{.id_bits = 5, .short_size = 4, .tag_size = 1, .cycle_bits = 0};
inline constexpr RecordHeaderLayout kLargeHeader{.id_bits = 16, .short_size = 6, .tag_size = 2, .cycle_bits = 0};
inline constexpr RecordHeaderLayout kTinyHeader{.id_bits = 8, .short_size = 3, .tag_size = 1, .cycle_bits = 8};

constexpr const RecordHeaderLayout& header_layout(HeaderKind kind) {
    switch (kind) {
        case HeaderKind::kTiny:
            return kTinyHeader;
        case HeaderKind::kLarge:
            return kLargeHeader;
        default:
            return kCompactHeader;
    }
}
constexpr bool is_header_kind(HeaderKind kind) { return kind <= HeaderKind::kTiny; }

inline constexpr uint64_t kMinRecordSize = kTinyHeader.short_size;
inline constexpr uint64_t kMaxHeaderSize = kLargeHeader.extended_size();
static_assert(kMinRecordSize <= kCompactHeader.short_size && kMinRecordSize <= kLargeHeader.short_size);
static_assert(kMaxHeaderSize >= kCompactHeader.extended_size() && kMaxHeaderSize >= kTinyHeader.extended_size());
// Part of the ring's format: other numbers need a new kRingSetVersion.
static_assert(kCompactHeader.time_bits() == 27 && kCompactHeader.all_ones() == 31);
static_assert(kCompactHeader.extended_size() == 13);
static_assert(kLargeHeader.time_bits() == 32 && kLargeHeader.all_ones() == 0xffff);
static_assert(kLargeHeader.extended_size() == 14);
static_assert(kTinyHeader.time_bits() == 16 && kTinyHeader.all_ones() == 255 && kTinyHeader.cycle() == 256);
static_assert(kTinyHeader.extended_size() == 12);

// What a writer needs to know of a header kind, worked out beforehand.
// Short form: one little-endian value, id + (timestamp & time_mask) * timestamp_factor, cut to short_size bytes.
// Extended form, for ids from `tag` on and gaps from `gap_limit` on: tag, 32-bit id, timestamp. The last 8 bytes of
// both together are the time in ns; the id is stored after it, over what is less than a cycle.
//
//     tiny      | tag | id            | cycles                    |
//                                 | ns                            |
struct HeaderForm {
    uint64_t gap_limit;         // ns since the record before
    uint64_t timestamp_factor;  // 2^bits of the id, divided by a cycle
    uint64_t time_mask;         // what is whole cycles
    uint64_t short_size;        // bytes
    uint32_t tag;
    uint16_t tag_size;       // bytes
    uint16_t extended_size;  // bytes
};

// Before each context of the application, which follow the others: what comes next.
enum class AppContextTag : uint8_t {
    kNone,    // nothing: the program does not provide it
    kInt64,   // 8 bytes
    kUint64,  // 8 bytes
    kDouble,  // 8 bytes
    kString,  // up to a NUL
};

constexpr HeaderForm header_form(HeaderKind kind) {
    const RecordHeaderLayout& layout = header_layout(kind);
    return {.gap_limit = layout.gap_limit(),
            .timestamp_factor = 1ULL << (layout.id_bits - layout.cycle_bits),
            .time_mask = ~(layout.cycle() - 1),
            .short_size = layout.short_size,
            .tag = static_cast<uint32_t>(layout.all_ones()),
            .tag_size = static_cast<uint16_t>(layout.tag_size),
            .extended_size = static_cast<uint16_t>(layout.extended_size())};
}

}  // namespace leat::ring
