#include "output/owned_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <vector>

#include "base/file.hpp"

namespace leat::output {
namespace {

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

// Cuts off what was written only in part, so that the next try, or a reader, finds the end where it was.
Result<void> GrowingFile::append(std::initializer_list<UntrustedBytes> parts) {
    std::vector<iovec> vectors;
    std::uint64_t added = 0;
    for (const UntrustedBytes part : parts) {
        vectors.push_back(vector_of(part));
        added += part.size();
    }
    auto written = write_all(fd.get(), vectors);
    if (!written) {
        cut(size);
        return written;
    }
    size += added;
    return {};
}

void GrowingFile::cut(std::uint64_t new_size) {
    // If it cannot be cut off, the next write goes over it.
    (void)!::ftruncate(fd.get(), static_cast<off_t>(new_size));
    ::lseek(fd.get(), static_cast<off_t>(new_size), SEEK_SET);
    size = new_size;
}

bool GrowingFile::begins_with(std::string_view text) const {
    std::array<char, 4096> buffer{};
    for (std::size_t at = 0; at < text.size();) {
        const std::string_view expected = text.substr(at, buffer.size());
        const auto found = std::span(buffer).first(expected.size());
        const auto filled = read_at(fd.get(), at, std::as_writable_bytes(found));
        if (filled != found.size() || !std::ranges::equal(found, expected)) return false;
        at += found.size();
    }
    return true;
}

Result<GrowingFile> OwnedFiles::create(int directory, const std::string& name) const {
    (void)::unlinkat(directory, name.c_str(), 0);
    GrowingFile file{
        UniqueFd(::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0660))};
    if (!file.fd.is_open() && errno == EEXIST)
        return refused("cannot create {}: what is there cannot be removed", (trace_ / name).string());
    if (!file.fd.is_open()) return io_error(fmt::format("cannot create {}", (trace_ / name).string()));
    LEAT_TRY(give(file.fd.get(), kOwnersFile));
    return file;
}

Result<GrowingFile> OwnedFiles::open(int directory, const std::string& name) const {
    GrowingFile file{UniqueFd(::openat(directory, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC))};
    const bool is_another = errno == ENOENT || errno == ELOOP || errno == EISDIR || errno == ENXIO;
    if (!file.fd.is_open() && is_another) return not_found("no file {} of ours", name);
    struct stat status {};
    if (!file.fd.is_open() || ::fstat(file.fd.get(), &status) != 0)
        return io_error(fmt::format("cannot go on with {}", (trace_ / name).string()));
    if (!S_ISREG(status.st_mode) || (owner_ && status.st_uid != *owner_)) return not_found("no file {} of ours", name);
    // One of them may be in a place where we must not write.
    if (status.st_nlink > 1)
        return refused("cannot go on with {}: it has other names (hard links): remove these", (trace_ / name).string());
    file.size = static_cast<std::uint64_t>(status.st_size);
    return file;
}

Result<void> OwnedFiles::give(int fd, mode_t mode) const {
    if (!owner_) return {};
    constexpr auto kSameGroup = static_cast<gid_t>(-1);
    // In its directory, the owner may have put something else in the place of what we made, and that may be another
    // user's: give away only what is ours.
    struct stat status {};
    if (::fstat(fd, &status) != 0 || (status.st_uid != ::geteuid() && status.st_uid != *owner_))
        return refused("cannot give {} to user {}: it is not ours", trace_.string(), *owner_);
    if (::fchown(fd, *owner_, kSameGroup) != 0 || ::fchmod(fd, mode) != 0)
        return io_error(fmt::format("cannot give {} to user {}", trace_.string(), *owner_));
    return {};
}

}  // namespace leat::output
