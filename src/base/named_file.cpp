#include "base/named_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <utility>

namespace leat {

NamedFile::NamedFile(std::filesystem::path path) : path_(std::move(path)), known_(identity()) {}

std::optional<NamedFile::Identity> NamedFile::identity() const {
    struct statx status {};
    if (::statx(AT_FDCWD, path_.c_str(), AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &status) != 0)
        return std::nullopt;
    const bool is_birth_known = (status.stx_mask & STATX_BTIME) != 0;
    return Identity{.device = ::makedev(status.stx_dev_major, status.stx_dev_minor),
                    .inode = status.stx_ino,
                    .born_s = is_birth_known ? status.stx_btime.tv_sec : 0,
                    .born_ns = is_birth_known ? status.stx_btime.tv_nsec : 0};
}

bool NamedFile::is_there() const { return known_ && identity() == known_; }

void NamedFile::remove() const {
    if (is_there()) ::unlink(path_.c_str());
}

}  // namespace leat
