#include "ctf/record_header.hpp"

#include <cstring>

#include "base/check.hpp"

namespace leat::ctf {
namespace {

constexpr std::size_t kIdSize = 4;  // of the extended form, between tag and timestamp

std::uint64_t short_form(const RecordHeaderLayout& layout, UntrustedBytes record) {
    LEAT_CHECK(record.size() >= layout.short_size);
    std::uint64_t value = 0;
    std::memcpy(&value, record.data(), layout.short_size);
    return value;
}

bool is_extended(const RecordHeaderLayout& layout, UntrustedBytes record) {
    return (short_form(layout, record) & layout.all_ones()) == layout.all_ones();
}

std::size_t extended_timestamp(const RecordHeaderLayout& layout) { return layout.extended_tag + kIdSize; }

}  // namespace

std::uint64_t record_timestamp(const RecordHeaderLayout& layout, UntrustedBytes record, std::uint64_t previous) {
    if (is_extended(layout, record)) {
        std::uint64_t timestamp = 0;
        LEAT_CHECK(record.size() >= extended_timestamp(layout) + sizeof timestamp);
        std::memcpy(&timestamp, record.data() + extended_timestamp(layout), sizeof timestamp);
        return timestamp;
    }
    return layout.short_timestamp(short_form(layout, record), previous);
}

RecordHeaderBytes with_timestamp(const RecordHeaderLayout& layout, UntrustedBytes record, std::uint64_t timestamp) {
    RecordHeaderBytes header;
    if (is_extended(layout, record)) {
        header.size = extended_timestamp(layout) + sizeof timestamp;
        LEAT_CHECK(record.size() >= header.size && header.size <= header.storage.size());
        std::memcpy(header.storage.data(), record.data(), extended_timestamp(layout));
        std::memcpy(header.storage.data() + extended_timestamp(layout), &timestamp, sizeof timestamp);
        return header;
    }
    header.size = layout.short_size;
    const std::uint64_t id = short_form(layout, record) & layout.all_ones();
    const std::uint64_t value = id | timestamp << layout.id_bits;
    std::memcpy(header.storage.data(), &value, layout.short_size);
    return header;
}

}  // namespace leat::ctf
