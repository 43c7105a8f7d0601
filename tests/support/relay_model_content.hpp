// The packets and metadata units that producers of RelayModel send. They say whose they are. So wherever they are
// found, on disk or at a viewer's, one can tell where they belong and whether they are whole.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/byte_cursor.hpp"
#include "wire/layout.hpp"

namespace leat::test {

// Begins each packet. The rest of the packet is filler that is computed from it.
struct PacketTag {
    static constexpr std::uint64_t kMagic = 0x4c45'4154'5041'434bULL;
    std::uint64_t magic = kMagic;
    std::uint64_t stream = 0;  // ModelledStream::uid
    std::uint64_t number = 0;
    std::uint32_t size = 0;     // bytes, including this tag
    std::uint32_t padding = 0;  // zeros that the relay appends
};
static_assert(sizeof(PacketTag) == 32);

// Begins each metadata unit.
struct UnitTag {
    static constexpr std::uint32_t kMagic = 0x4d45'5441U;
    std::uint32_t magic = kMagic;
    std::uint32_t generation = 0;  // increases when the metadata is sent again from its beginning
    std::uint64_t stream = 0;
    std::uint32_t number = 0;  // within its generation
    std::uint32_t size = 0;    // bytes, including this tag
    std::uint32_t padding = 0;
    std::uint32_t check = 0;  // keeps other bytes from being taken for a tag
};
static_assert(sizeof(UnitTag) == 32);

inline std::uint64_t filler_word(std::uint64_t stream, std::uint64_t number, std::uint64_t position) {
    std::uint64_t x = stream * 0x9e37'79b9'7f4a'7c15ULL + number * 0xbf58'476d'1ce4'e5b9ULL + position;
    x = (x ^ (x >> 31)) * 0x94d0'49bb'1331'11ebULL;
    return (x ^ (x >> 29)) | 0x0101'0101'0101'0101ULL;  // never a zero byte: zeros are padding
}

// Appends the bytes after a tag of 32 bytes.
inline void fill(std::vector<std::byte>& bytes, std::uint64_t stream, std::uint64_t number) {
    for (std::size_t at = 32; at < bytes.size(); at += 8) {
        const std::uint64_t word = filler_word(stream, number, at);
        std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
    }
}

inline wire::Bytes make_packet(const PacketTag& tag) {
    wire::Bytes bytes(tag.size);
    std::memcpy(bytes.data(), &tag, sizeof tag);
    fill(bytes, tag.stream, tag.number);
    return bytes;
}

// The filler does not depend on the generation, because a viewer may get the beginning of a unit from one generation
// and its end from the next.
inline wire::Bytes make_unit(UnitTag tag) {
    tag.check = tag.size ^ tag.number ^ UnitTag::kMagic;
    wire::Bytes bytes(tag.size);
    std::memcpy(bytes.data(), &tag, sizeof tag);
    fill(bytes, tag.stream, tag.number);
    return bytes;
}

// Returns the tag at the start of these bytes, if there is one.
inline std::optional<PacketTag> packet_tag(UntrustedBytes bytes) {
    PacketTag tag;
    if (bytes.size() < sizeof tag) return std::nullopt;
    std::memcpy(&tag, bytes.data(), sizeof tag);
    return tag.magic == PacketTag::kMagic ? std::optional(tag) : std::nullopt;
}

inline bool is_filler(UntrustedBytes bytes, std::uint64_t stream, std::uint64_t number) {
    for (std::size_t at = 32; at < bytes.size(); at += 8) {
        const std::uint64_t word = filler_word(stream, number, at);
        if (std::memcmp(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at)) != 0) return false;
    }
    return true;
}

inline bool is_zero(UntrustedBytes bytes) {
    for (const std::byte byte : bytes)
        if (byte != std::byte{0}) return false;
    return true;
}

// Whether `bytes`, which begin with the tag, hold the whole packet with its padding, undamaged.
inline bool is_whole(UntrustedBytes bytes, const PacketTag& tag) {
    const std::uint64_t all = std::uint64_t{tag.size} + tag.padding;
    return tag.size >= sizeof tag && bytes.size() >= all && is_filler(bytes.first(tag.size), tag.stream, tag.number) &&
           is_zero(bytes.subspan(tag.size, tag.padding));
}

// The whole units that metadata consists of. `rest`: the number of bytes after them that are not a whole unit.
struct UnitsFound {
    std::vector<UnitTag> units{};
    std::size_t rest = 0;
    bool is_damaged = false;
};
inline UnitsFound find_units(UntrustedBytes bytes) {
    UnitsFound found;
    while (!bytes.empty()) {
        UnitTag tag;
        found.rest = bytes.size();
        if (bytes.size() < sizeof tag) return found;
        std::memcpy(&tag, bytes.data(), sizeof tag);
        found.is_damaged = tag.magic != UnitTag::kMagic || tag.check != (tag.size ^ tag.number ^ UnitTag::kMagic);
        if (found.is_damaged) return found;
        const std::uint64_t all = std::uint64_t{tag.size} + tag.padding;
        if (bytes.size() < all) return found;
        found.is_damaged =
            !is_filler(bytes.first(tag.size), tag.stream, tag.number) || !is_zero(bytes.subspan(tag.size, tag.padding));
        if (found.is_damaged) return found;
        found.units.push_back(tag);
        bytes = bytes.subspan(static_cast<std::size_t>(all));
    }
    found.rest = 0;
    return found;
}

}  // namespace leat::test
