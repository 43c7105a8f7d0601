#include "relay/ingest/splice_pipe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace leat::relay {
namespace {

// Every call on the socket acknowledges what it took, which costs more than the call: so take much at once. This is
// what the system gives to any user.
constexpr int kPipeSize = 1 << 20;

}  // namespace

bool SplicePipe::open() {
    if (in_.is_open()) return true;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return false;
    out_ = UniqueFd(ends[0]);
    in_ = UniqueFd(ends[1]);
    // One user may not have many large pipes: a small one serves too.
    (void)::fcntl(in_.get(), F_SETPIPE_SZ, kPipeSize);
    return true;
}

// Only into an empty pipe: a full one and an empty socket look the same to splice(), EAGAIN.
std::optional<std::size_t> SplicePipe::fill(int socket, std::size_t count) {
    count = std::min<std::size_t>(count, kPipeSize);
    if (count == 0) return 0;
    for (;;) {
        const ssize_t moved = ::splice(socket, nullptr, in_.get(), nullptr, count, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (moved > 0) size_ += static_cast<std::size_t>(moved);
        if (moved >= 0) return static_cast<std::size_t>(moved);
        if (errno == EAGAIN) return std::nullopt;
        if (errno != EINTR) throw std::system_error(errno, std::generic_category());
    }
}

// EINVAL is how a file system says that it cannot splice. It says so at once, so nothing has left the pipe: the caller
// reads the bytes from there and writes them.
Result<std::size_t> SplicePipe::write_what_fits(int fd, std::uint64_t offset, std::uint64_t count) {
    std::size_t written = 0;
    while (written < count) {
        auto at = static_cast<loff_t>(offset + written);
        const ssize_t moved = ::splice(out_.get(), nullptr, fd, &at, count - written, SPLICE_F_MOVE);
        if (moved > 0) {
            written += static_cast<std::size_t>(moved);
            size_ -= static_cast<std::size_t>(moved);
        }
        if (moved >= 0 || errno == EINTR) continue;
        if (errno == ENOSPC || errno == EDQUOT) break;
        if (errno == EINVAL && written == 0)
            return unsupported("the trace's file system cannot take bytes from a pipe");
        return io_error("cannot write the trace");
    }
    return written;
}

Result<std::size_t> SplicePipe::read(std::span<std::byte> bytes) {
    for (;;) {
        const ssize_t count = ::read(out_.get(), bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return io_error("cannot read from a pipe");
        size_ -= static_cast<std::size_t>(count);
        return static_cast<std::size_t>(count);
    }
}

}  // namespace leat::relay
