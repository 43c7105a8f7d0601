#include "viewer/read/lost_packets.hpp"

#include <algorithm>
#include <system_error>

#include "base/file.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"

namespace leat::viewer {

namespace {

// Those that the file should have, one after the other.
class Named {
  public:
    void add(const ctf::IndexEntry& entry) {
        is_whole_ = is_whole_ && entry.offset == end_;
        begins_.push_back(end_);
        end_ += entry.packet_size / 8;
    }

    // None, if the index is not one of a file that was cut off at the end of a packet.
    [[nodiscard]] std::uint64_t behind(std::uint64_t size) const {
        const auto first = std::ranges::lower_bound(begins_, size);
        if (!is_whole_ || first == begins_.end() || *first != size) return 0;
        return static_cast<std::uint64_t>(begins_.end() - first);
    }

  private:
    std::vector<std::uint64_t> begins_{};
    std::uint64_t end_ = 0;
    bool is_whole_ = true;
};

}  // namespace

// The size of the file is asked for last: what an index names is in the file before.
LostPackets lost_packets(const std::filesystem::path& stream_file) {
    constexpr std::size_t kAtOnce = 256;  // entries
    LostPackets lost;
    Named named;
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
            if (!entry) continue;
            if (entry->is_lost())
                lost.numbers.push_back(entry->packet_seq_num);
            else
                named.add(*entry);
        }
    }
    std::ranges::sort(lost.numbers);
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(stream_file, error);
    if (!error) lost.cut_off = named.behind(size);
    return lost;
}

}  // namespace leat::viewer
