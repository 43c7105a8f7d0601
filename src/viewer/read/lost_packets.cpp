#include "viewer/read/lost_packets.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>

#include "base/file.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"

namespace leat::viewer {

namespace {

// Those that a file should have, one after the other.
class Named {
  public:
    explicit Named(std::uint64_t size) : size_(size) {}

    void add(const ctf::IndexEntry& entry) {
        const std::uint64_t size = entry.packet_size / 8;
        is_whole_ = is_whole_ && entry.offset == end_ && size != 0;
        if (end_ == size_) is_end_of_one_ = true;
        if (end_ >= size_) ++behind_;
        end_ += size;
    }

    // None, if the index is not one of a file that was cut off at the end of a packet.
    [[nodiscard]] std::uint64_t behind() const { return is_whole_ && is_end_of_one_ ? behind_ : 0; }

  private:
    std::uint64_t size_;
    std::uint64_t end_ = 0;
    std::uint64_t behind_ = 0;
    bool is_whole_ = true;
    bool is_end_of_one_ = false;  // the file's end
};

}  // namespace

// The size of the file is asked for once more at the end: what an index names is in the file before.
LostPackets lost_packets(const std::filesystem::path& stream_file, std::uint64_t size) {
    constexpr std::size_t kAtOnce = 256;  // entries
    LostPackets lost;
    Named named(size);
    const auto index = open_for_reading(trace::index_path(stream_file));
    struct stat status {};
    if (!index || ::fstat(index->get(), &status) != 0) return lost;
    lost.index = {status.st_dev, status.st_ino, status.st_size};
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
            if (entry->is_lost()) {
                lost.numbers.push_back(entry->packet_seq_num);
                continue;
            }
            named.add(*entry);
            // Nobody has written that: it is a hole, which may have no end.
            if (entry->packet_size == 0) is_at_end = true;
        }
    }
    std::ranges::sort(lost.numbers);
    std::error_code error;
    if (std::filesystem::file_size(stream_file, error) == size && !error) lost.cut_off = named.behind();
    return lost;
}

}  // namespace leat::viewer
