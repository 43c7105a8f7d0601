#include "trace/index_format.hpp"

#include <endian.h>

#include <algorithm>
#include <cstring>

namespace leat::trace {
namespace {

using ctf::IndexEntry;

static_assert(kIndexEntrySize == 72 && kIndexEntrySize10 == 56);

std::uint32_t read_u32(UntrustedBytes bytes, std::size_t offset) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return be32toh(value);
}

}  // namespace

std::array<std::byte, kIndexHeaderSize> encode_index_header(std::uint32_t minor) {
    std::array<std::byte, kIndexHeaderSize> bytes{};
    std::byte* at = bytes.data();
    const std::size_t size = minor == 0 ? kIndexEntrySize10 : kIndexEntrySize;
    for (const std::uint32_t value : {kIndexMagic, kIndexMajor, minor, static_cast<std::uint32_t>(size)}) {
        const std::uint32_t big_endian = htobe32(value);
        std::memcpy(at, &big_endian, sizeof big_endian);
        at += sizeof big_endian;
    }
    return bytes;
}

std::array<std::byte, kIndexEntrySize> encode_index_entry(const IndexEntry& entry) {
    std::array<std::byte, kIndexEntrySize> bytes{};
    std::byte* at = bytes.data();
    for (const auto field : ctf::kIndexEntryFields) {
        const std::uint64_t big_endian = htobe64(entry.*field);
        std::memcpy(at, &big_endian, sizeof big_endian);
        at += sizeof big_endian;
    }
    return bytes;
}

Result<std::size_t> parse_index_header(UntrustedBytes bytes) {
    if (bytes.size() < kIndexHeaderSize)
        return corrupt("index header has {} bytes of {}", bytes.size(), kIndexHeaderSize);
    if (read_u32(bytes, 0) != kIndexMagic) return corrupt("index does not begin with its magic number");
    const std::uint32_t major = read_u32(bytes, 4);
    if (major != kIndexMajor) return unsupported("index has version {}, but only version 1 is supported", major);
    const std::uint32_t size = read_u32(bytes, 12);
    if (size < kIndexEntrySize10 || size > 4096) return corrupt("index has entries of {} bytes", size);
    return size;
}

Result<IndexEntry> parse_index_entry(UntrustedBytes bytes) {
    if (bytes.size() < kIndexEntrySize10)
        return corrupt("index entry has {} bytes of {}", bytes.size(), kIndexEntrySize10);
    IndexEntry entry;
    const std::size_t count = std::min(bytes.size() / sizeof(std::uint64_t), ctf::kIndexEntryFields.size());
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t value = 0;
        std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
        entry.*ctf::kIndexEntryFields[i] = be64toh(value);
    }
    return entry;
}

}  // namespace leat::trace
