#include "viewer/read/lost_packets.hpp"

#include <algorithm>

#include "base/mapped_file.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"

namespace leat::viewer {

std::vector<std::uint64_t> lost_packets(const std::filesystem::path& stream_file) {
    std::vector<std::uint64_t> lost;
    const auto mapping = MappedFile::open(trace::index_path(stream_file));
    if (!mapping || mapping->bytes().size() < trace::kIndexHeaderSize) return lost;
    UntrustedBytes rest = mapping->bytes();
    const auto entry_size = trace::parse_index_header(rest.first(trace::kIndexHeaderSize));
    if (!entry_size) return lost;
    for (rest = rest.subspan(trace::kIndexHeaderSize); rest.size() >= *entry_size; rest = rest.subspan(*entry_size)) {
        const auto entry = trace::parse_index_entry(rest.first(*entry_size));
        if (!entry) break;
        if (entry->is_lost()) lost.push_back(entry->packet_seq_num);
    }
    if (mapping->was_shortened()) lost.clear();
    std::ranges::sort(lost);
    return lost;
}

}  // namespace leat::viewer
