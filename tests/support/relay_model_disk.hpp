// What must be on disk, and whose it is: see relay_model.hpp. The relay is paused during the checks.
#pragma once

#include <sys/stat.h>

#include <fstream>

#include "support/relay_model.hpp"

namespace leat::test {

struct RelayModel::Seen {
    // The file of each packet, by stream and number.
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> packets{};
    // The number of whole units, by stream and generation of metadata.
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> units{};
    std::map<std::string, const ModelledPart*> directories{};  // of traces, with their parts
    std::map<std::string, const ModelledPart*> roots{};        // the first two steps of paths, with their parts
    std::map<std::string, const ModelledStream*> files{};
};

// Makes traces that belong to nobody in this model.
inline void RelayModel::make_strangers() {
    strangers_ = {"host-a/s9-20250101-000000", "host-z/old", "archives/kept"};
    for (const std::string& root : strangers_) {
        const std::string directory = root.ends_with("0") ? root + "/ust/uid/0/64-bit" : root;
        std::filesystem::create_directories(output_ / directory / "index");
        for (const std::string file : {"metadata", "channel0_0", "index/channel0_0.idx"})
            std::ofstream(output_ / directory / file) << "kept since last year\n";
    }
    for (const Found& file : list_files()) frozen_[file.path] = file;
}

inline void RelayModel::fill_disk() {
    if (!options_.can_fill_disk || is_disk_full_) return;
    tell("the disk is full");
    is_disk_full_ = was_disk_full_ = true;
    const UniqueFd file(::open((output_ / ".filler").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const std::vector<char> page(4096, 'x');
    while (::write(file.get(), page.data(), page.size()) > 0) {
    }
}

inline void RelayModel::empty_disk() {
    if (!std::exchange(is_disk_full_, false)) return;
    tell("the disk has room again");
    std::filesystem::remove(output_ / ".filler");
}

inline std::vector<RelayModel::Found> RelayModel::list_files() const {
    std::vector<Found> files;
    std::error_code error;
    for (auto at = std::filesystem::recursive_directory_iterator(output_, error); !error && at != end(at);
         at.increment(error)) {
        struct stat status {};
        if (::lstat(at->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
        const std::string name = at->path().filename();
        if (name == ".leat-sync" || name == ".filler") continue;
        files.push_back({at->path().lexically_relative(output_), static_cast<std::uint64_t>(status.st_size),
                         status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec, status.st_ino});
    }
    return files;
}

inline wire::Bytes RelayModel::contents(const std::string& path) const {
    wire::Bytes bytes;
    const UniqueFd file(::open((output_ / path).c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file.is_open() || ::fstat(file.get(), &status) != 0) return bytes;
    bytes.resize(static_cast<std::size_t>(status.st_size));
    std::size_t done = 0;
    for (ssize_t count = 1; count > 0 && done < bytes.size();
         done += static_cast<std::size_t>(std::max<ssize_t>(count, 0)))
        count = ::pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    bytes.resize(done);
    return bytes;
}

inline void RelayModel::check_disk() {
    if (!is_good() || !check_alive() || !host_->pause()) return;
    look_at_disk();
    host_->resume();
}

inline void RelayModel::look_at_disk() {
    if (!is_good()) return;
    ++counts_.checks;
    const std::vector<Found> files = list_files();
    check_strangers(files);
    Seen seen;
    for (const Found& file : files) {
        const std::filesystem::path path(file.path);
        if (frozen_.contains(file.path) || path.parent_path().filename() == "index") continue;
        if (path.filename() == "metadata")
            look_at_metadata(file, seen);
        else
            look_at_data(file, seen);
    }
    check_stored(seen);
    if (is_good()) freeze(files, seen);
}

// Files that nobody writes to any more must not change.
inline void RelayModel::check_strangers(const std::vector<Found>& files) {
    std::map<std::string, const Found*> found;
    for (const Found& file : files) found[file.path] = &file;
    for (const auto& [path, was] : frozen_) {
        const auto is = found.find(path);
        if (is == found.end()) return violate("stranger", "{} is gone, of a session that had ended", path);
        if (*is->second != was)
            return violate("stranger", "{} has changed, of a session that had ended: {} bytes, were {}", path,
                           is->second->size, was.size);
    }
}

inline void RelayModel::freeze(const std::vector<Found>& files, const Seen& seen) {
    for (ModelledRecording& recording : recordings_)
        recording.is_frozen = std::ranges::all_of(
            parts_, [&](const ModelledPart& part) { return part.recording != &recording || part.is_settled; });
    for (const Found& file : files) {
        const auto stream = seen.files.find(file.path);
        if (stream != seen.files.end() && stream->second->part->recording->is_frozen) frozen_[file.path] = file;
    }
}

// A trace directory belongs to one control connection, and a session directory to one session.
inline void RelayModel::note_owner(const Found& file, ModelledStream& stream, Seen& seen) {
    const ModelledPart& part = *stream.part;
    seen.files[file.path] = &stream;
    const std::string directory = std::filesystem::path(file.path).parent_path();
    const auto [known, is_new] = seen.directories.try_emplace(directory, &part);
    if (!is_new && known->second != &part)
        return violate("shared", "{} holds files of parts {} and {}", directory, known->second->id, part.id);
    if (part.has_chunks() && file.path.rfind(part.directory + "/", 0) != 0)
        return violate("shared", "{} of part {} is outside of its directory \"{}\"", file.path, part.id,
                       part.directory);
    for (const ModelledPart& other : parts_) {
        if (other.recording == nullptr || other.recording == part.recording || !other.has_chunks()) continue;
        const bool is_closer = !part.has_chunks() || other.directory.size() > part.directory.size();
        if (is_closer && file.path.rfind(other.directory + "/", 0) == 0)
            return violate("shared", "{} of part {} is in the directory of part {}, of another session", file.path,
                           part.id, other.id);
    }
    // A session that names no directory gets one of two steps. A base path may lead into an existing directory, in
    // which the session's own is made.
    const std::size_t step = file.path.find('/');
    const std::size_t end = step == std::string::npos ? step : file.path.find('/', step + 1);
    const std::string root = file.path.substr(0, end);
    // A snapshot may go below a directory that is there, into a new one.
    const std::string place = part.is_snapshot ? file.path.substr(0, file.path.find('/', root.size() + 1)) : root;
    const bool is_strangers =
        std::ranges::any_of(frozen_, [&](const auto& frozen) { return frozen.first.rfind(place + "/", 0) == 0; });
    if (strangers_.contains(root) && is_strangers && (!part.has_chunks() || part.directory == root))
        return violate("shared", "{} of part {} is in a stranger's directory", file.path, part.id);
    if (part.has_chunks() && part.directory.size() > root.size()) return;
    const auto [first, is_first] = seen.roots.try_emplace(root, &part);
    if (!is_first && first->second->recording != part.recording && (!part.has_chunks() || !first->second->has_chunks()))
        violate("shared", "{} holds files of parts {} and {}, of two sessions", root, first->second->id, part.id);
}

inline void RelayModel::look_at_data(const Found& file, Seen& seen) {
    const wire::Bytes data = contents(file.path);
    const auto first = packet_tag(data);
    if (!first) return;  // the file is empty, or only a few bytes of its first packet have come
    ModelledStream* const stream = stream_of(first->stream);
    if (stream == nullptr) return violate("visible", "{} has a packet of stream {}", file.path, first->stream);
    note_owner(file, *stream, seen);
    const std::filesystem::path path(file.path);
    const std::string index = path.parent_path() / "index" / (path.filename().string() + ".idx");
    if (std::filesystem::exists(output_ / index))
        look_at_index(file, data, contents(index), seen);
    else if (stream->part->is_snapshot)
        look_at_packets(file, data, seen);
}

// An entry must cover bytes that exist and were sent. Each packet must have one entry, and they must be in order.
inline void RelayModel::look_at_index(const Found& file, const wire::Bytes& data, const wire::Bytes& index,
                                      Seen& seen) {
    if (index.size() < trace::kIndexHeaderSize) return;
    const auto size = trace::parse_index_header(UntrustedBytes(index).first(trace::kIndexHeaderSize));
    if (!size) return violate("visible", "{}: {}", file.path, size.error().message);
    const ModelledStream* owner = nullptr;
    std::optional<std::uint64_t> last;
    for (std::size_t at = trace::kIndexHeaderSize; at + *size <= index.size(); at += *size) {
        const auto entry = trace::parse_index_entry(UntrustedBytes(index).subspan(at, *size));
        if (!entry) return violate("visible", "{}: {}", file.path, entry.error().message);
        if (entry->is_lost()) continue;
        const auto where =
            fmt::format("{}: entry {} at {}", file.path, (at - trace::kIndexHeaderSize) / *size, entry->offset);
        if (entry->offset > data.size() || entry->packet_size / 8 > data.size() - entry->offset)
            return violate("visible", "{}: it covers {} bytes, the file has {}", where, entry->packet_size / 8,
                           data.size());
        const auto bytes = UntrustedBytes(data).subspan(entry->offset, entry->packet_size / 8);
        const auto tag = packet_tag(bytes);
        if (!tag || !is_whole(bytes, *tag) || tag->size + std::uint64_t{tag->padding} != bytes.size())
            return violate("visible", "{}: the bytes are not those of one packet", where);
        ModelledStream* const stream = stream_of(tag->stream);
        if (stream == nullptr || (owner != nullptr && owner != stream))
            return violate("shared", "{}: packets of streams {} and {} in one file", where,
                           owner == nullptr ? 0 : owner->uid, tag->stream);
        owner = stream;
        const auto sent = stream->packets.find(tag->number);
        if (sent == stream->packets.end())
            return violate("visible", "{}: packet {} was never sent", where, tag->number);
        if (entry->timestamp_begin != sent->second.begin || entry->timestamp_end != sent->second.end)
            return violate("visible", "{}: not the times of packet {} of stream {}", where, tag->number, stream->uid);
        if (last && *last >= tag->number)
            return violate("visible", "{}: packet {} after {}", where, tag->number, *last);
        last = tag->number;
        const auto [known, is_new] = seen.packets.try_emplace({stream->uid, tag->number}, file.path);
        if (!is_new)
            return violate("visible", "packet {} of stream {} is in {} and {}", tag->number, stream->uid, known->second,
                           file.path);
    }
}

inline void RelayModel::look_at_packets(const Found& file, const wire::Bytes& data, Seen& seen) {
    for (std::size_t at = 0; at < data.size();) {
        const auto rest = UntrustedBytes(data).subspan(at);
        const auto tag = packet_tag(rest);
        if (!tag || !is_whole(rest, *tag)) return;
        seen.packets.try_emplace({tag->stream, tag->number}, file.path);
        at += tag->size + tag->padding;
    }
}

inline void RelayModel::look_at_metadata(const Found& file, Seen& seen) {
    const wire::Bytes bytes = contents(file.path);
    const UnitsFound found = find_units(bytes);
    if (found.is_damaged)
        return violate("metadata", "{}: no unit at {} of {}", file.path, bytes.size() - found.rest, bytes.size());
    for (std::size_t i = 0; i < found.units.size(); ++i) {
        const UnitTag& unit = found.units[i];
        ModelledStream* const stream = stream_of(unit.stream);
        if (stream == nullptr || unit.stream != found.units[0].stream)
            return violate("shared", "{}: metadata of streams {} and {}", file.path, found.units[0].stream,
                           unit.stream);
        if (unit.number != i || unit.generation != found.units[0].generation)
            return violate("metadata", "{}: unit {} of generation {} in the place of {}", file.path, unit.number,
                           unit.generation, i);
        if (i == 0) note_owner(file, *stream, seen);
    }
    if (found.units.empty()) return;
    std::uint32_t& units = seen.units[{found.units[0].stream, found.units[0].generation}];
    units = std::max(units, static_cast<std::uint32_t>(found.units.size()));
}

inline void RelayModel::check_stored(const Seen& seen) {
    const auto is_deleted = [](const ModelledStream& stream, std::uint64_t chunk) {
        return chunk == kNoChunk || stream.part->recording->deleted.contains(chunk);
    };
    for (const ModelledStream& stream : streams_) {
        if (stream.may_be_gone || stream.part->recording->is_frozen) continue;
        for (const auto& [number, packet] : stream.packets) {
            if (!packet.is_stored || stream.is_limited() || is_deleted(stream, packet.chunk)) continue;
            if (!seen.packets.contains({stream.uid, number}))
                return violate("stored", "packet {} of stream {} of part {} is not on disk, and was said to be stored",
                               number, stream.uid, stream.part->id);
        }
        for (std::uint32_t i = 0; i < stream.generations.size(); ++i) {
            const auto& generation = stream.generations[i];
            if (generation.stored == 0 || generation.may_be_gone || is_deleted(stream, generation.chunk)) continue;
            const auto units = seen.units.find({stream.uid, i});
            const std::uint32_t count = units == seen.units.end() ? 0 : units->second;
            if (count < generation.stored)
                return violate("stored", "{} of {} units of metadata stream {} (generation {}) of part {} are on disk",
                               count, generation.stored, stream.uid, i, stream.part->id);
        }
    }
}

}  // namespace leat::test
