// What this side's shared memory has in common: it keeps its size, whoever has a descriptor of it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>

namespace leat {

inline constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[nodiscard]] inline bool is_sealed(int fd, std::uint64_t size) {
    struct stat status {};
    const int seals = ::fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & kSizeSeals) == kSizeSeals && ::fstat(fd, &status) == 0 &&
           static_cast<std::uint64_t>(status.st_size) == size;
}

}  // namespace leat
