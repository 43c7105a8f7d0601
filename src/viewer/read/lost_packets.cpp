#include "viewer/read/lost_packets.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"

namespace leat::viewer {

std::vector<std::uint64_t> lost_packets(const std::filesystem::path& stream_file) {
    constexpr std::size_t kAtOnce = 256;  // entries
    std::vector<std::uint64_t> lost;
    const auto index = open_for_reading(trace::index_path(stream_file));
    if (!index) return lost;
    const auto header = read_at(index->get(), 0, trace::kIndexHeaderSize);
    if (!header) return lost;
    const auto entry_size = trace::parse_index_header(*header);
    if (!entry_size) return lost;
    std::uint64_t offset = trace::kIndexHeaderSize;
    bool is_at_end = false;
    while (!is_at_end) {
        const auto bytes = read_at(index->get(), offset, kAtOnce * *entry_size);
        if (!bytes) return {};
        is_at_end = bytes->size() < kAtOnce * *entry_size;
        offset += bytes->size();
        for (UntrustedBytes rest = *bytes; rest.size() >= *entry_size; rest = rest.subspan(*entry_size)) {
            const auto entry = trace::parse_index_entry(rest.first(*entry_size));
            if (entry && entry->is_lost()) lost.push_back(entry->packet_seq_num);
        }
    }
    std::ranges::sort(lost);
    return lost;
}

}  // namespace leat::viewer
