#include "output/stream_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/descriptors.hpp"
#include "base/file.hpp"
#include "ctf/record/packet_header.hpp"
#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"
#include "trace/trace_directories.hpp"

namespace leat::output {
namespace {

using Paths = std::vector<std::filesystem::path>;

// What an index has of the packets below `next`.
struct IndexedPart {
    std::uint64_t index_size = trace::kIndexHeaderSize;
    std::uint64_t data_size = 0;
    std::optional<std::uint64_t> newest{};  // packet
};

// Nothing: it is no index of ours. Its owner may have made it as large as it likes, so it is read in parts.
Result<std::optional<IndexedPart>> indexed_part(int fd, std::uint64_t data_size, std::uint64_t next) {
    std::vector<std::byte> buffer(1024 * trace::kIndexEntrySize);
    const auto header = std::span(buffer).first(trace::kIndexHeaderSize);
    const bool is_whole = LEAT_TRY(read_at(fd, 0, header)) == header.size();
    if (!is_whole || trace::parse_index_header(header) != trace::kIndexEntrySize) return std::optional<IndexedPart>();
    IndexedPart part;
    for (;;) {
        UntrustedBytes entries = std::span(buffer).first(LEAT_TRY(read_at(fd, part.index_size, buffer)));
        if (entries.size() < trace::kIndexEntrySize) return std::optional(part);
        for (; entries.size() >= trace::kIndexEntrySize; entries = entries.subspan(trace::kIndexEntrySize)) {
            const auto entry = trace::parse_index_entry(entries.first(trace::kIndexEntrySize));
            if (!entry || entry->packet_seq_num >= next || entry->offset != part.data_size) return std::optional(part);
            const std::uint64_t size = entry->packet_size / 8;
            if (size == 0 || size > data_size - part.data_size) return std::optional(part);
            part.index_size += trace::kIndexEntrySize;
            part.data_size += size;
            part.newest = entry->packet_seq_num;
        }
    }
}

// The numbers in the names of a stream's files.
std::vector<std::uint64_t> numbers_of(const std::string& stream, std::span<const std::string> indexes) {
    std::vector<std::uint64_t> numbers;
    const std::string prefix = stream + "_";
    for (const std::string& name : indexes) {
        if (!name.starts_with(prefix) || !name.ends_with(trace::kIndexSuffix)) continue;
        std::uint64_t number = 0;
        const char* const begin = name.data() + prefix.size();
        const char* const end = name.data() + name.size() - trace::kIndexSuffix.size();
        const auto [number_end, error] = std::from_chars(begin, end, number);
        if (error == std::errc{} && number_end == end && std::to_string(number).size() == std::size_t(end - begin))
            numbers.push_back(number);
    }
    return numbers;
}

// Where a session has traces of this path: in its directory, in those of chunks and snapshots, and in its archives. It
// may be anywhere that a crashed recorder, or somebody else, has named; but no link leads to another place.
Paths directories_of_trace(const std::filesystem::path& session_directory, const std::filesystem::path& trace_path) {
    Paths found;
    std::error_code nowhere;
    const std::filesystem::path real = std::filesystem::canonical(session_directory, nowhere);
    if (nowhere) return found;
    const auto add = [&](const std::filesystem::path& chunk) {
        std::error_code error;
        const std::filesystem::path directory = chunk / trace_path;
        if (std::filesystem::canonical(directory, error) == (real / directory.lexically_relative(session_directory)))
            found.push_back(directory);
    };
    add(session_directory);
    for (const auto& parent : {session_directory, session_directory / "archives"}) {
        std::error_code error;
        for (std::filesystem::directory_iterator at(parent, error); !error && at != end(at); at.increment(error))
            if (std::error_code unknown; !at->is_symlink(unknown)) add(at->path());
    }
    return found;
}

}  // namespace

std::vector<UnfinishedFile> find_unfinished_files(const std::filesystem::path& session_directory,
                                                  const std::filesystem::path& trace_path, std::optional<uid_t> owner) {
    std::vector<UnfinishedFile> unfinished;
    for (const std::filesystem::path& directory : directories_of_trace(session_directory, trace_path)) {
        for (const std::filesystem::path& file : trace::find_stream_files(directory).value_or(Paths())) {
            struct stat status {};
            if (::lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
            if (owner && status.st_uid != *owner) continue;
            const auto index = open_for_reading(trace::index_path(file));
            if (!index) continue;
            const auto size = static_cast<std::uint64_t>(status.st_size);
            const auto part = indexed_part(index->get(), size, ~std::uint64_t{0}).value_or(std::nullopt);
            if (part && part->data_size != size)
                unfinished.push_back({.file = file, .size = part->data_size, .beyond = size - part->data_size});
        }
    }
    return unfinished;
}

// The index last: whoever looks for the rest of what was to be removed goes by those.
void remove_stream_file(int trace_directory, int index_directory, const std::string& name) {
    ::unlinkat(trace_directory, name.c_str(), 0);
    ::unlinkat(index_directory, trace::index_name(name).c_str(), 0);
}

Result<StreamFiles::File> StreamFiles::make_file(const Place& place, std::uint64_t number) {
    const std::string name = place.limits.file_name(place.stream, number);
    auto file = make_file(place, name);
    // What was of that name before has half gone.
    if (!file) remove_stream_file(place.trace_directory, place.index_directory, name);
    return file;
}

// The index first: docs/formats/sync-file.md, "Files that are replaced".
Result<StreamFiles::File> StreamFiles::make_file(const Place& place, const std::string& name) {
    File file;
    file.index = LEAT_TRY(place.files->create(place.index_directory, trace::index_name(name)));
    LEAT_TRY(file.index.append({trace::encode_index_header()}));
    file.data = LEAT_TRY(place.files->create(place.trace_directory, name));
    file.unsafe = trace::MovingLock(file.data.fd.get(), 0);
    return file;
}

// They stay open.
Result<StreamFiles> StreamFiles::create(Place place) {
    if (are_descriptors_scarce(2))
        return fail(ErrorKind::kDiskFull, "cannot create {}: too many open files",
                    place.limits.file_name(place.stream, 0));
    File file = LEAT_TRY(make_file(place, 0));
    return StreamFiles(std::move(place), std::move(file), 0);
}

// What is not there, or is not ours, is made anew when the next packet comes. There may be none: so what a process left
// that was killed while it made the files goes away now, and so does a file that has only packets that will be written
// again.
Result<std::optional<StreamFiles::Found>> StreamFiles::reopen_file(const Place& place, std::uint64_t number,
                                                                   std::uint64_t next) {
    const std::string name = place.limits.file_name(place.stream, number);
    auto index = place.files->open(place.index_directory, trace::index_name(name));
    auto data = place.files->open(place.trace_directory, name);
    for (const auto* const file : {&index, &data})
        if (!*file && file->error().kind != ErrorKind::kNotFound) return tl::unexpected(file->error());
    std::optional<IndexedPart> part;
    if (index && data) part = LEAT_TRY(indexed_part(index->fd.get(), data->size, next));
    if (!part || !part->newest) {
        remove_stream_file(place.trace_directory, place.index_directory, name);
        return std::optional<Found>();
    }
    index->cut(part->index_size);
    data->cut(part->data_size);
    return std::optional(Found{
        .file = {.data = *std::move(data), .index = *std::move(index)}, .number = number, .newest = *part->newest});
}

Result<std::optional<StreamFiles>> StreamFiles::reopen(Place place, std::uint64_t next,
                                                       std::span<const std::string> indexes) {
    const auto numbers = place.limits.size == 0 ? std::vector<std::uint64_t>{0} : numbers_of(place.stream, indexes);
    std::optional<Found> newest;
    for (const std::uint64_t number : numbers) {
        auto found = LEAT_TRY(reopen_file(place, number, next));
        if (found && (!newest || found->newest > newest->newest)) newest = std::move(found);
    }
    if (!newest) return std::optional<StreamFiles>();
    newest->file.unsafe = trace::MovingLock(newest->file.data.fd.get(), newest->file.data.size);
    return std::optional(StreamFiles(std::move(place), std::move(newest->file), newest->number));
}

Result<void> StreamFiles::write(const consumer::Packet& packet) {
    const auto header = ctf::encode(packet.header);
    if (place_.limits.is_full(file_.data.size, header.size() + packet.records.size())) is_full_ = true;
    if (is_full_) {
        file_ = LEAT_TRY(make_file(place_, number_ + 1));
        ++number_;
        is_full_ = false;
    }
    const std::uint64_t offset = file_.data.size;
    LEAT_TRY(file_.data.append({header, packet.late_records, packet.other_records()}));
    // Readers would miss a packet that has no index entry. Take the packet back: it will be tried again.
    auto indexed = file_.index.append({trace::encode_index_entry(ctf::index_entry_of(packet.header, offset))});
    if (!indexed) {
        file_.data.cut(offset);
        return indexed;
    }
    file_.unsafe.move_to(file_.data.size);
    return {};
}

}  // namespace leat::output
