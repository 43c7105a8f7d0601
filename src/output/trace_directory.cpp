#include "output/trace_directory.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "trace/index_format.hpp"
#include "trace/stream_paths.hpp"

namespace leat::output {
namespace {

namespace fs = std::filesystem;

Result<void> make_directories(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return fail(ErrorKind::kIo, "cannot create {}: {}", path.string(), error.message());
    return {};
}

iovec vector_of(UntrustedBytes bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT(*-const-cast): writev only reads
}

// Writes all parts, in as many calls as that takes.
Result<void> write_all(int fd, std::span<iovec> parts) {
    while (!parts.empty()) {
        const ssize_t count = ::writev(fd, parts.data(), static_cast<int>(parts.size()));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return io_error("cannot write the trace");
        auto written = static_cast<std::size_t>(count);
        while (!parts.empty() && written >= parts.front().iov_len) {
            written -= parts.front().iov_len;
            parts = parts.subspan(1);
        }
        if (parts.empty()) break;
        parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + written;
        parts.front().iov_len -= written;
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<TraceDirectory>> TraceDirectory::create(const fs::path& directory, uid_t uid,
                                                               std::string channel) {
    std::error_code error;
    if (fs::exists(directory, error) && !fs::is_empty(directory, error))
        return refused("{} exists and is not empty: choose another with -o", directory.string());
    const fs::path trace = directory / "ust" / "uid" / std::to_string(uid) / "64-bit";
    LEAT_TRY(make_directories(trace / trace::kIndexDirectory));
    std::unique_ptr<TraceDirectory> output(new TraceDirectory(directory, trace, std::move(channel)));
    // Create the sync file before the metadata: a file `metadata` makes the directory a trace, which can then be
    // followed.
    const UniqueFd trace_fd(::open(trace.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (auto sync = trace::SyncWriter::create(trace_fd.get())) output->sync_ = *std::move(sync);
    output->metadata_ = LEAT_TRY(create_file(trace / "metadata"));
    return output;
}

// Unlinks the sync file first; its lock goes with the member. So followers see the end, and nobody finds a sync file
// that has no writer.
TraceDirectory::~TraceDirectory() {
    std::error_code ignored;
    if (sync_) fs::remove(trace_ / trace::kSyncFileName, ignored);
}

Result<TraceDirectory::GrowingFile> TraceDirectory::create_file(const fs::path& path) {
    GrowingFile file{UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0660))};
    if (!file.fd.is_open()) return io_error(fmt::format("cannot create {}", path.string()));
    return file;
}

void TraceDirectory::cut(GrowingFile& file, std::uint64_t size) {
    // If it cannot be cut off, the next write goes over it.
    (void)!::ftruncate(file.fd.get(), static_cast<off_t>(size));
    ::lseek(file.fd.get(), static_cast<off_t>(size), SEEK_SET);
    file.size = size;
}

// Cuts off what was written only in part, so that the next try, or a reader, finds the end where it was.
Result<void> TraceDirectory::append(GrowingFile& file, std::initializer_list<UntrustedBytes> parts) {
    std::vector<iovec> vectors;
    std::uint64_t size = 0;
    for (const UntrustedBytes part : parts) {
        vectors.push_back(vector_of(part));
        size += part.size();
    }
    auto written = write_all(file.fd.get(), vectors);
    if (!written) {
        cut(file, file.size);
        return written;
    }
    file.size += size;
    return {};
}

Result<void> TraceDirectory::write_metadata(std::string_view unit) {
    return append(metadata_, {std::as_bytes(std::span(unit))});
}

Result<TraceDirectory::StreamFiles*> TraceDirectory::files_of(std::uint64_t stream_instance_id) {
    const auto found = streams_.find(stream_instance_id);
    if (found != streams_.end()) return &found->second;
    const std::string name = fmt::format("{}_{}", channel_, stream_instance_id);
    StreamFiles files;
    files.index = LEAT_TRY(create_file(trace::index_path(trace_ / name)));
    LEAT_TRY(append(files.index, {trace::encode_index_header()}));
    files.data = LEAT_TRY(create_file(trace_ / name));
    files.unsafe = trace::MovingLock(files.data.fd.get(), 0);
    return &streams_.emplace(stream_instance_id, std::move(files)).first->second;
}

Result<void> TraceDirectory::write_packet(const consumer::Packet& packet) {
    StreamFiles* files = LEAT_TRY(files_of(packet.header.stream_instance_id));
    const std::uint64_t offset = files->data.size;
    const auto header = ctf::encode(packet.header);
    LEAT_TRY(append(files->data, {header, packet.late_records, packet.other_records()}));
    // Readers would miss a packet that has no index entry. Take the packet back: it will be tried again.
    auto indexed = append(files->index, {trace::encode_index_entry(ctf::index_entry_of(packet.header, offset))});
    if (!indexed) {
        cut(files->data, offset);
        return indexed;
    }
    files->unsafe.move_to(files->data.size);
    return {};
}

// On a full disk nothing is published, and followers wait until there is room.
void TraceDirectory::cycle_done(std::uint64_t horizon) {
    if (sync_) (void)sync_->publish(horizon, metadata_.size);
}

void TraceDirectory::remove_if_unused() {
    if (!streams_.empty()) return;
    std::error_code error;
    fs::remove_all(root_ / "ust", error);
    fs::remove(root_, error);  // only if there is nothing else in it
}

}  // namespace leat::output
