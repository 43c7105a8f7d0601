#include "viewer/check/index_check.hpp"

#include <cstdint>
#include <map>
#include <system_error>

#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"

namespace leat::viewer {

IndexCheck::IndexCheck(const std::filesystem::path& stream_file) : path_(trace::index_path(stream_file)) {
    std::error_code ignored;
    if (std::filesystem::exists(path_, ignored)) mapping_ = MappedFile::open(path_);
}

void IndexCheck::run(std::span<const RecordedPacket> packets, bool may_lack_last, Findings& findings) const {
    if (!mapping_) return;
    if (!*mapping_) return findings.add(path_, {}, mapping_->error().message);
    UntrustedBytes rest = (*mapping_)->bytes();
    if (rest.size() < trace::kIndexHeaderSize) return findings.add(path_, {}, "it has no header");
    const auto entry_size = trace::parse_index_header(rest.first(trace::kIndexHeaderSize));
    if (!entry_size) return findings.add(path_, 0, entry_size.error().message);
    Findings found;
    std::map<std::uint64_t, std::uint64_t> sizes;  // of the packets that no entry was for, by their offsets
    for (const RecordedPacket& packet : packets) sizes.emplace(packet.offset, packet.properties.packet_size);
    std::uint64_t offset = trace::kIndexHeaderSize;
    std::uint64_t end = 0;  // of the packets that it has, in the stream
    for (rest = rest.subspan(offset); rest.size() >= *entry_size; rest = rest.subspan(*entry_size)) {
        const auto entry = trace::parse_index_entry(rest.first(*entry_size));
        if (!entry) {
            found.add(path_, offset, entry.error().message);
        } else if (!entry->is_lost()) {
            const auto known = sizes.find(entry->offset);
            if (known == sizes.end())
                found.add(path_, offset,
                          fmt::format("no whole packet begins at offset {} of the stream", entry->offset));
            else if (8 * known->second != entry->packet_size)
                found.add(path_, offset,
                          fmt::format("the packet at offset {} has {} bytes, not {}", entry->offset, known->second,
                                      entry->packet_size / 8));
            if (known != sizes.end()) {
                end = std::max(end, known->first + known->second);
                sizes.erase(known);
            }
        }
        offset += *entry_size;
    }
    if ((*mapping_)->was_shortened()) return findings.add(path_, {}, "it has become shorter while it was read");
    // Whoever writes it now writes whole entries, but not at once.
    const bool is_being_written = may_lack_last || has_grown();
    if (!rest.empty() && !is_being_written) found.add(path_, offset, "an entry is cut short");
    for (const auto& [packet, size] : sizes)
        if (packet < end || !is_being_written)
            found.add(path_, {}, fmt::format("it lacks the packet at offset {}", packet));
    findings.add(found);
}

bool IndexCheck::has_grown() const {
    std::error_code error;
    const auto size = std::filesystem::file_size(path_, error);
    return !error && size > (*mapping_)->bytes().size();
}

}  // namespace leat::viewer
