#include "trace/moving_lock.hpp"

#include <fcntl.h>

#include <cerrno>

namespace leat::trace {
namespace {

constexpr std::uint64_t kToInfinity = 0;  // a size

struct flock region(short type, std::uint64_t begin, std::uint64_t size) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(begin);
    lock.l_len = static_cast<off_t>(size);
    return lock;
}

}  // namespace

MovingLock::MovingLock(int fd, std::uint64_t begin) : begin_(begin) {
    const struct flock lock = region(F_WRLCK, begin, kToInfinity);
    if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) fd_ = fd;
}

void MovingLock::move_to(std::uint64_t begin) {
    if (fd_ < 0 || begin <= begin_) return;
    const struct flock lock = region(F_UNLCK, begin_, begin - begin_);
    // Cutting off the front of a lock needs no new one, so it does not fail. If it did, readers would wait longer.
    if (::fcntl(fd_, F_OFD_SETLK, &lock) == 0) begin_ = begin;
}

void MovingLock::release() {
    if (fd_ < 0) return;
    const struct flock lock = region(F_UNLCK, begin_, kToInfinity);
    (void)::fcntl(fd_, F_OFD_SETLK, &lock);
    fd_ = -1;
}

bool is_write_locked(int fd, std::uint64_t begin, std::uint64_t size) {
    struct flock lock = region(F_RDLCK, begin, size);
    return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
}

std::uint64_t unlocked_size(int fd) {
    struct flock lock = region(F_RDLCK, 0, kToInfinity);
    const bool is_locked = ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
    return is_locked ? static_cast<std::uint64_t>(lock.l_start) : UINT64_MAX;
}

Result<LockWait> wait_until_unlocked(int fd, std::uint64_t begin, std::uint64_t size) {
    const struct flock wanted = region(F_RDLCK, begin, size);
    if (::fcntl(fd, F_OFD_SETLKW, &wanted) != 0) {
        if (errno == EINTR) return LockWait::kInterrupted;
        return io_error("cannot wait for the writer's lock");
    }
    // We only wanted to wait: give the lock back.
    const struct flock lock = region(F_UNLCK, begin, size);
    ::fcntl(fd, F_OFD_SETLK, &lock);
    return LockWait::kFree;
}

}  // namespace leat::trace
