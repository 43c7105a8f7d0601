#include "base/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace leat {

tl::unexpected<Error> io_error(std::string_view what) {
    const bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EMFILE || errno == ENFILE;
    return fail(is_full ? ErrorKind::kDiskFull : ErrorKind::kIo, "{}: {}", what, std::strerror(errno));
}

Result<UniqueFd> open_for_reading(const std::filesystem::path& path) {
    // O_NONBLOCK: a FIFO in the place of a file must not hang us; regular files do not care.
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.is_open()) return io_error(fmt::format("cannot open {}", path.string()));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return io_error(fmt::format("cannot stat {}", path.string()));
    if (!S_ISREG(status.st_mode)) return refused("{} is not a regular file", path.string());
    return fd;
}

bool is_removed(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && status.st_nlink == 0;
}

Result<std::string> read_file(const std::filesystem::path& path, std::size_t size_limit) {
    const UniqueFd fd = LEAT_TRY(open_for_reading(path));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return io_error(fmt::format("cannot stat {}", path.string()));
    if (static_cast<std::size_t>(status.st_size) > size_limit)
        return refused("{} has {} bytes, more than the {} that are read", path.string(), status.st_size, size_limit);
    std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
    const auto filled = read_at(fd.get(), 0, std::as_writable_bytes(std::span(bytes)));
    if (!filled) return wrap(path.string(), filled.error());
    bytes.resize(*filled);  // somebody may have shortened the file: return what is left
    return bytes;
}

// Through a descriptor of its own: reading moves the position of a directory.
Result<std::vector<std::string>> names_in(int directory, std::size_t most) {
    const int fd = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return io_error("cannot list a directory");
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd), ::closedir);
    if (entries == nullptr) return io_error("cannot list a directory");
    std::vector<std::string> names;
    while (names.size() < most) {
        errno = 0;
        const dirent* const entry = ::readdir(entries.get());
        if (entry == nullptr && errno != 0) return io_error("cannot list a directory");
        if (entry == nullptr) break;
        names.emplace_back(entry->d_name);
    }
    return names;
}

Result<std::size_t> read_at(int fd, std::uint64_t offset, std::span<std::byte> bytes) {
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t count =
            ::pread(fd, bytes.data() + filled, bytes.size() - filled, static_cast<off_t>(offset + filled));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return io_error("cannot read");
        if (count == 0) break;
        filled += static_cast<std::size_t>(count);
    }
    return filled;
}

Result<std::vector<std::byte>> read_at(int fd, std::uint64_t offset, std::size_t size) {
    std::vector<std::byte> bytes(size);
    bytes.resize(LEAT_TRY(read_at(fd, offset, std::span(bytes))));
    return bytes;
}

std::uint64_t largest_file() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    return limit.rlim_cur;
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, WhenFull when_full) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN && when_full == WhenFull::kWait) {
            pollfd room{fd, POLLOUT, 0};
            ::poll(&room, 1, -1);
            continue;
        }
        if (count < 0) return io_error("cannot write");
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
}

}  // namespace leat
