#include "viewer/check/index_check.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.hpp"
#include "ctf/model/clock.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"
#include "viewer/read/stream_reader.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;

// Bytes of whole entries that are zeros, as a crash of the system leaves them, or a hole, which may have no end.
constexpr std::uint64_t kManyZeros = 64U << 20U;
std::uint64_t zeros_at(UntrustedBytes bytes, std::uint64_t entry_size) {
    const UntrustedBytes looked_at = bytes.first(std::min<std::uint64_t>(bytes.size(), kManyZeros));
    const auto first = std::ranges::find_if(looked_at, [](std::byte byte) { return byte != std::byte{}; });
    const auto zeros = static_cast<std::uint64_t>(first - looked_at.begin());
    return zeros - zeros % entry_size;
}

// The packets that can be read, by their places. Of damaged ones it was told elsewhere.
class Places {
  public:
    Places(std::span<const RecordedPacket> packets, const ctf::DecodePlan* plan, std::uint64_t stream_size)
        : plan_(plan), stream_size_(stream_size) {
        for (const RecordedPacket& packet : packets) places_.emplace(packet.offset, Place{&packet.properties});
    }

    // What is wrong with such an entry; empty: nothing. Then its packet has an entry.
    std::string compare(const ctf::IndexEntry& entry) {
        const auto behind = places_.upper_bound(entry.offset);
        const auto at = behind == places_.begin() ? places_.end() : std::prev(behind);
        const bool is_inside = at != places_.end() && entry.offset < at->first + at->second.size();
        if (is_inside && entry.offset == at->first) {
            if (std::exchange(at->second.has_entry, true))
                return fmt::format("another entry is of the packet at offset {}, too", at->first);
            end_ = std::max(end_, at->first + at->second.size());
            if (8 * at->second.size() == entry.packet_size) return compare(entry, *at->second.properties);
            return fmt::format("the packet at offset {} has {} bytes, not {}", at->first, at->second.size(),
                               entry.packet_size / 8);
        }
        if (!is_inside && entry.offset < stream_size_) return {};
        return fmt::format("no whole packet begins at offset {} of the stream", entry.offset);
    }

    // Tells of each that has no entry, and of whether others behind it have.
    template <class Tell>
    void tell_missing(const Tell& tell) const {
        for (const auto& [offset, place] : places_)
            if (!place.has_entry) tell(offset, offset < end_);
    }

  private:
    struct Place {
        const ctf::PacketProperties* properties;
        bool has_entry = false;

        [[nodiscard]] std::uint64_t size() const { return properties->packet_size; }
    };

    // Of one packet, what both know.
    [[nodiscard]] std::string compare(const ctf::IndexEntry& entry, const ctf::PacketProperties& packet) const {
        const auto differ = [&](std::string_view what, std::uint64_t of_packet, std::uint64_t of_entry) {
            return fmt::format("the packet at offset {} has {} {}, not {}", entry.offset, what, of_packet, of_entry);
        };
        if (packet.content_bits != entry.content_size)
            return differ("content_size", packet.content_bits, entry.content_size);
        if (!is_time(entry.timestamp_begin, packet.begin_ns) || !is_time(entry.timestamp_end, packet.end_ns))
            return fmt::format("the packet at offset {} has other times", entry.offset);
        if (packet.events_discarded.value_or(entry.events_discarded) != entry.events_discarded)
            return differ("events_discarded", *packet.events_discarded, entry.events_discarded);
        if (plan_->stream_class->id != entry.stream_class_id)
            return differ("stream class", plan_->stream_class->id, entry.stream_class_id);
        const auto knows_other = [](std::uint64_t of_entry, const std::optional<std::uint64_t>& of_packet) {
            return of_entry != ctf::IndexEntry::kUnknown && of_packet && *of_packet != of_entry;
        };
        if (knows_other(entry.stream_instance_id, packet.stream_instance_id))
            return differ("stream_instance_id", *packet.stream_instance_id, entry.stream_instance_id);
        if (knows_other(entry.packet_seq_num, packet.sequence_number))
            return differ("packet_seq_num", *packet.sequence_number, entry.packet_seq_num);
        return {};
    }

    // Of narrow times, the index may know more than the packets do.
    [[nodiscard]] bool is_time(std::uint64_t cycles, const std::optional<std::int64_t>& of_packet_ns) const {
        if (!of_packet_ns || plan_->end_size < 64 || has_narrow_time(*plan_)) return true;
        return ctf::Clock(*plan_->clock).nanoseconds(cycles) == of_packet_ns;
    }

    std::map<std::uint64_t, Place> places_{};
    const ctf::DecodePlan* plan_;
    std::uint64_t stream_size_;
    std::uint64_t end_ = 0;  // of the last packet that has an entry
};

}  // namespace

IndexCheck::IndexCheck(const fs::path& stream_file) : path_(trace::index_path(stream_file)) {
    std::error_code ignored;
    if (fs::status(path_, ignored).type() != fs::file_type::not_found) opened_ = open(path_);
}

Result<IndexCheck::Opened> IndexCheck::open(const fs::path& path) {
    const UniqueFd fd = LEAT_TRY(open_for_reading(path));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return io_error("cannot ask for its size");
    auto mapping = LEAT_TRY(MappedFile::of_file(fd.get(), static_cast<std::size_t>(status.st_size)));
    return Opened{std::move(mapping), status.st_dev, status.st_ino};
}

void IndexCheck::run(std::span<const RecordedPacket> packets, const ctf::DecodePlan* plan, std::uint64_t stream_size,
                     Findings& findings, Findings& unfinished) const {
    if (!opened_) return;
    if (!*opened_) return findings.add(path_, {}, opened_->error().message);
    const MappedFile& mapping = (*opened_)->mapping;
    UntrustedBytes rest = mapping.bytes();
    if (rest.size() < trace::kIndexHeaderSize) return unfinished.add(path_, {}, "it has no header");
    const auto entry_size = trace::parse_index_header(rest.first(trace::kIndexHeaderSize));
    if (!entry_size) return findings.add(path_, 0, entry_size.error().message);
    Findings found;
    Places places(packets, plan, stream_size);
    std::uint64_t offset = trace::kIndexHeaderSize;
    for (rest = rest.subspan(offset); rest.size() >= *entry_size; rest = rest.subspan(*entry_size)) {
        const auto entry = trace::parse_index_entry(rest.first(*entry_size));
        if (const std::uint64_t zeros = zeros_at(rest, *entry_size); zeros != 0) {
            const bool is_hole = zeros + *entry_size > kManyZeros;
            found.add(path_, offset,
                      fmt::format("{} bytes of it are zeros{}", zeros, is_hole ? ", and perhaps more" : ""));
            if (is_hole) rest = rest.first(zeros);
            rest = rest.subspan(zeros - *entry_size);
            offset += zeros;
            continue;
        }
        if (!entry) {
            found.add(path_, offset, entry.error().message);
        } else if (!entry->is_lost()) {
            std::string what = places.compare(*entry);
            if (!what.empty()) found.add(path_, offset, std::move(what));
        }
        offset += *entry_size;
    }
    if (mapping.was_shortened()) return findings.add(path_, {}, "it has become shorter while it was read");
    findings.add(found);
    if (!rest.empty()) unfinished.add(path_, offset, "an entry is cut short");
    places.tell_missing([&](std::uint64_t packet, bool is_certain) {
        (is_certain ? findings : unfinished).add(path_, {}, fmt::format("it lacks the packet at offset {}", packet));
    });
}

bool IndexCheck::has_changed() const {
    std::error_code error;
    if (is_replaced()) return true;
    if (!opened_ || !*opened_) return false;
    const std::uintmax_t size = fs::file_size(path_, error);
    return !error && size > (*opened_)->mapping.bytes().size();
}

bool IndexCheck::is_replaced() const {
    struct stat status {};
    return opened_ && *opened_ &&
           (::stat(path_.c_str(), &status) != 0 || status.st_dev != (*opened_)->device ||
            status.st_ino != (*opened_)->inode);
}

}  // namespace leat::viewer
