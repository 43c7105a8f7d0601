#include "base/memory_place.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

#include "base/file.hpp"
#include "base/sealed_memory.hpp"

namespace leat {
namespace {

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

// They write pages where they lie. btrfs, ZFS and the like write them elsewhere each time; a network's may be gone.
constexpr std::array<long, 3> kGoodFileSystems{TMPFS_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC};

Result<void> allocate(int fd, std::span<const MemoryPlace::Part> parts) {
    for (const auto& [offset, size] : parts)
        while (::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(size)) != 0)
            if (errno != EINTR) return io_error("no room");
    return {};
}

std::uint64_t bytes_of(std::span<const MemoryPlace::Part> parts) {
    std::uint64_t sum = 0;
    for (const MemoryPlace::Part& part : parts) sum += part.size;
    return sum;
}

tl::unexpected<Error> no_room(const std::filesystem::path& directory, const std::string& name, std::uint64_t size) {
    if (directory.empty())
        return fail(ErrorKind::kDiskFull,
                    "no memory for {} of {} bytes (vm.overcommit_memory may be 2): choose smaller rings, or raise "
                    "vm.overcommit_ratio",
                    name, size);
    return fail(ErrorKind::kDiskFull,
                "no room for {} of {} bytes: make room, or choose another place, or smaller rings",
                (directory / name).string(), size);
}

}  // namespace

bool is_memory_limited() {
    std::ifstream file("/proc/sys/vm/overcommit_memory");
    int policy = 2;
    return !(file >> policy) || policy == 2;
}

MemoryPlace MemoryPlace::promised() {
    MemoryPlace place;
    place.is_promised_ = true;
    return place;
}

const MemoryPlace& MemoryPlace::without_names() {
    static const MemoryPlace that_comes_with_use;
    static const MemoryPlace that_is_promised = promised();
    return is_memory_limited() ? that_is_promised : that_comes_with_use;
}

Result<MemoryPlace> MemoryPlace::of_directory(UniqueFd directory, std::filesystem::path path) {
    struct statfs status {};
    if (::fstatfs(directory.get(), &status) != 0) return io_error(fmt::format("cannot look at {}", path.string()));
    if (std::ranges::find(kGoodFileSystems, static_cast<long>(status.f_type)) == kGoodFileSystems.end())
        return refused(
            "{} is on a file system that cannot promise programs their memory: choose a directory on tmpfs "
            "(/dev/shm), ext4 or XFS",
            path.string());
    MemoryPlace place = promised();
    place.directory_ = std::move(directory);
    place.path_ = std::move(path);
    return place;
}

Result<UniqueFd> MemoryPlace::make(const std::string& name) const {
    if (!is_directory()) {
        UniqueFd fd(::memfd_create(("leat-" + name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
        if (!fd.is_open()) return io_error(fmt::format("cannot create memory for {}", name));
        return fd;
    }
    UniqueFd fd(
        ::openat(directory(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!fd.is_open()) return io_error(fmt::format("cannot create {}", (path_ / name).string()));
    return fd;
}

// Sealed before anybody else has it: a program that could shrink the memory would make every other user of it fault.
Result<UniqueFd> MemoryPlace::make(const std::string& name, std::uint64_t size, std::span<const Part> parts) const {
    if (size > largest_file())
        return refused("{} of {} bytes: this process may have files of {} bytes at most, see ulimit -f", name, size,
                       largest_file());
    UniqueFd fd = LEAT_TRY(make(name));
    if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
        return io_error(fmt::format("cannot make {} of {} bytes", name, size));
    if (!is_directory() && ::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0)
        return io_error(fmt::format("cannot seal {}", name));
    if (!is_promised()) return fd;
    auto allocated = allocate(fd.get(), parts);
    if (is_disk_full(allocated)) return no_room(path_, name, bytes_of(parts));
    if (!allocated) return wrap((path_ / name).string(), std::move(allocated).error());
    return fd;
}

}  // namespace leat
