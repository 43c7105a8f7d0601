#include "viewer/check/repaired_trace.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/unique_fd.hpp"
#include "ctf/json/json_metadata.hpp"
#include "ctf/metadata/metadata_stream.hpp"
#include "ctf/tsdl/tsdl_writer.hpp"
#include "trace/stream_paths.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;

// A directory that is there when it is whole: until then it has another name beside its own, and goes if that fails.
class NewDirectory {
  public:
    static Result<NewDirectory> make(fs::path path) {
        if (is_there(path)) return refused("{} exists: name a new directory", path.string());
        std::error_code error;
        if (path.has_parent_path() && !fs::create_directories(path.parent_path(), error) && error)
            return refused("cannot make {}: {}", path.parent_path().string(), error.message());
        std::string part = path.string() + ".XXXXXX";
        if (::mkdtemp(part.data()) == nullptr) return io_error("cannot make a directory beside " + path.string());
        return NewDirectory(std::move(path), std::move(part));
    }
    NewDirectory(NewDirectory&& other) noexcept
        : path_(std::move(other.path_)), part_(std::exchange(other.part_, {})) {}
    NewDirectory& operator=(NewDirectory&&) = delete;
    ~NewDirectory() {
        std::error_code ignored;
        if (!part_.empty()) fs::remove_all(part_, ignored);
    }

    [[nodiscard]] const fs::path& part() const { return part_; }

    Result<void> finish() {
        const mode_t mask = ::umask(0);
        ::umask(mask);
        if (::chmod(part_.c_str(), 0777U & ~mask) != 0) return io_error("cannot make " + path_.string());
        if (::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) {
            if (errno == EEXIST) return refused("{} exists: name a new directory", path_.string());
            // Not all filesystems know the flag.
            const bool may_rename = errno == EINVAL && !is_there(path_);
            if (!may_rename || ::rename(part_.c_str(), path_.c_str()) != 0)
                return io_error("cannot make " + path_.string());
        }
        part_.clear();
        return {};
    }

  private:
    NewDirectory(fs::path path, fs::path part) : path_(std::move(path)), part_(std::move(part)) {}

    static bool is_there(const fs::path& path) {
        std::error_code ignored;
        return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
    }

    fs::path path_;
    fs::path part_;
};

Result<void> write_file(const fs::path& path, std::span<const std::span<const std::byte>> pieces,
                        CheckProgress& progress) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file.is_open()) return io_error("cannot make " + path.string());
    for (const auto piece : pieces) {
        LEAT_TRY(progress.check());
        auto written = write_all(file.get(), piece);
        if (!written) return wrap(path.string(), std::move(written).error());
        progress.add(piece.size());
    }
    // Some file systems say only then that they have no room.
    if (::fsync(file.get()) != 0) return io_error("cannot write " + path.string());
    return {};
}

// Whole packets, one after the other: their indexes would be wrong, and readers make their own.
Result<void> write_stream(const CheckedFile& checked, const fs::path& directory, CheckProgress& progress) {
    const RecordedFile& file = *checked.file;
    std::vector<std::span<const std::byte>> pieces;
    pieces.reserve(checked.packets.size());
    for (const RecordedPacket& packet : checked.packets)
        pieces.push_back(file.mapping.bytes().subspan(packet.offset, packet.properties.packet_size));
    auto written = write_file(directory / file.path.filename(), pieces, progress);
    // Then what was written may be zeros, and to write what the file has no more is an error that does not say so.
    if (file.mapping.was_shortened()) return became_shorter(file);
    return written;
}

Result<void> write_streams(const CheckedDirectory& from, const fs::path& directory, CheckProgress& progress) {
    for (const CheckedFile& checked : from.files)
        if (!checked.packets.empty()) LEAT_TRY(write_stream(checked, directory, progress));
    return {};
}

Result<void> write_metadata(const CheckedDirectory& from, const fs::path& directory, CheckProgress& progress) {
    const std::string& text = from.metadata->text;
    // A damaged one in packets may have lost the comment that must be its first line ([CTF-1.8], section 7.1).
    const bool has_signature = text.starts_with(ctf::kMetadataSignature) || text.starts_with(ctf::kFragmentBegin);
    const std::array metadata{std::as_bytes(std::span(std::string_view(has_signature ? "" : ctf::kTsdlSignature))),
                              std::as_bytes(std::span(text))};
    return write_file(directory / trace::kMetadataFile, metadata, progress);
}

}  // namespace

Result<void> write_repaired_trace(const TraceCheck& check, const fs::path& directory, CheckProgress& progress) {
    NewDirectory output = LEAT_TRY(NewDirectory::make(directory));
    std::vector<const CheckedDirectory*> readable;
    for (const CheckedDirectory& checked : check.directories())
        if (checked.metadata != nullptr) readable.push_back(&checked);
    std::vector<fs::path> paths{output.part()};
    if (readable.size() != 1) {
        paths.clear();
        const std::size_t digits = fmt::formatted_size("{}", readable.size());
        for (std::size_t number = 0; number < readable.size(); ++number) {
            paths.push_back(output.part() / fmt::format("{:0{}}", number, digits));
            if (::mkdir(paths.back().c_str(), 0777) != 0) return io_error("cannot make " + paths.back().string());
        }
    }
    for (std::size_t i = 0; i < readable.size(); ++i) LEAT_TRY(write_streams(*readable[i], paths[i], progress));
    // Last: what is left of a process that is killed here is no trace to anybody.
    for (std::size_t i = 0; i < readable.size(); ++i) LEAT_TRY(write_metadata(*readable[i], paths[i], progress));
    return output.finish();
}

}  // namespace leat::viewer
