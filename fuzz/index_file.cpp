// An index file: its header and its entries. An entry that is read and written again must give the same bytes.
//
// Input: the file.
#include <algorithm>

#include "base/check.hpp"
#include "fuzz_input.hpp"
#include "trace/index_format.hpp"

namespace leat::fuzz::index_file {
namespace {

void read_entry(UntrustedBytes bytes) {
    const auto entry = trace::parse_index_entry(bytes);
    LEAT_CHECK(entry.has_value());
    const auto written = trace::encode_index_entry(*entry);
    // Only whole values are compared. Values that an entry of version 1.0 does not have are unknown.
    const std::size_t known = std::min(bytes.size() / 8 * 8, written.size());
    LEAT_CHECK(std::ranges::equal(std::span(written).first(known), bytes.first(known)));
    LEAT_CHECK(known == written.size() || entry->packet_seq_num == ctf::IndexEntry::kUnknown);
    LEAT_CHECK(*trace::parse_index_entry(written) == *entry);
}

void read_index(FuzzInput input) {
    const auto entry_size = trace::parse_index_header(input.take_bytes(trace::kIndexHeaderSize));
    if (!entry_size) return;
    LEAT_CHECK(*entry_size >= trace::kIndexEntrySize10);
    for (UntrustedBytes rest = input.take_rest(); rest.size() >= *entry_size; rest = rest.subspan(*entry_size))
        read_entry(rest.first(*entry_size));
}

}  // namespace

LEAT_FUZZ_TARGET(index_file) {
    read_index(FuzzInput(data, size));
    return 0;
}

}  // namespace leat::fuzz::index_file
