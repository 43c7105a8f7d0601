#include "ctf/record/record_header.hpp"

#include <algorithm>
#include <cstring>

namespace leat::ctf {
namespace {

std::uint64_t short_form(const ring::RecordHeaderLayout& layout, const RecordHeaderBytes& header) {
    std::uint64_t value = 0;
    std::memcpy(&value, header.storage.data(), layout.short_size);
    return value;
}

bool is_extended(const ring::RecordHeaderLayout& layout, const RecordHeaderBytes& header) {
    return (short_form(layout, header) & layout.all_ones()) == layout.all_ones();
}

}  // namespace

RecordHeaderBytes copy_header(const ring::RecordHeaderLayout& layout, UntrustedBytes record) {
    RecordHeaderBytes header;
    std::memcpy(header.storage.data(), record.data(), std::min(record.size(), header.storage.size()));
    header.size = is_extended(layout, header) ? layout.extended_size() : layout.short_size;
    return header;
}

std::uint64_t record_timestamp(const ring::RecordHeaderLayout& layout, const RecordHeaderBytes& header,
                               std::uint64_t previous) {
    if (!is_extended(layout, header)) return layout.short_timestamp(short_form(layout, header), previous);
    std::uint64_t cycles = 0;
    std::memcpy(&cycles, header.storage.data() + layout.extended_time_offset(), layout.extended_time_size());
    return layout.time_of(cycles);
}

RecordHeaderBytes with_timestamp(const ring::RecordHeaderLayout& layout, const RecordHeaderBytes& header,
                                 std::uint64_t timestamp) {
    RecordHeaderBytes result = header;
    if (is_extended(layout, header)) {
        const std::uint64_t cycles = layout.cycles(timestamp);
        std::memcpy(result.storage.data() + layout.extended_time_offset(), &cycles, layout.extended_time_size());
        return result;
    }
    const std::uint64_t id = short_form(layout, header) & layout.all_ones();
    const std::uint64_t value = layout.short_form(id, timestamp);
    std::memcpy(result.storage.data(), &value, layout.short_size);
    return result;
}

}  // namespace leat::ctf
