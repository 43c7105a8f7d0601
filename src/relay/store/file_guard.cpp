#include "relay/store/file_guard.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/fd_passing.hpp"

namespace leat::relay {
namespace {

// From us to the child: with a descriptor, guard it; without, forget it.
struct Order {
    std::uint32_t slot;
};

std::atomic_ref<std::uint64_t> size_in(const Mapping& sizes, std::uint32_t slot) {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(sizes.data())[slot]);
}

void send_order(int socket, const Order& order, int fd) {
    // It fails if the child is gone: guard() asks beforehand.
    const std::span<const int> fds(&fd, fd >= 0 ? 1 : 0);
    while (send_with_fds(socket, std::as_bytes(std::span(&order, 1)), fds) < 0 && errno == EINTR) {
    }
}

// The child's memory: what it would cut.
using Files = std::array<int, FileGuard::kMaxFiles>;

// One order; false: nobody is there any more to give one.
bool take_order(int socket, Files& files) {
    Order order{};
    const MessageWithFds received = receive_with_fds(socket, std::as_writable_bytes(std::span(&order, 1)), 0);
    if (received.size < 0 && errno == EINTR) return true;
    if (received.size != sizeof order || order.slot >= files.size()) return false;
    int& file = files[order.slot];
    if (file >= 0) ::close(file);
    file = received.fd_count == 1 ? received.fds[0] : -1;
    return true;
}

// Nothing of the parent's is touched but its signals' dispositions: only async-signal-safe calls, for the parent may be
// anything.
[[noreturn]] void be_guard(int socket, const Mapping& sizes) {
    ::setsid();
    ::prctl(PR_SET_NAME, "relayd-guard");
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int standard : {0, 1, 2}) ::dup2(null, standard);
    Files files;
    files.fill(-1);
    while (take_order(socket, files)) {
    }
    for (std::uint32_t slot = 0; slot < files.size(); ++slot)
        if (files[slot] >= 0) (void)!::ftruncate(files[slot], static_cast<off_t>(size_in(sizes, slot).load()));
    ::_exit(0);
}

}  // namespace

// The child shares the sizes, which we write without a system call, and is given the descriptors. It notices our end,
// of whatever kind, by the end of the socket: only we have the other end.
Result<std::unique_ptr<FileGuard>> FileGuard::start() {
    constexpr std::size_t kSize = kMaxFiles * sizeof(std::uint64_t);
    const UniqueFd memory(::memfd_create("guarded files", MFD_CLOEXEC));
    if (!memory.is_open() || ::ftruncate(memory.get(), kSize) != 0) return io_error("cannot make shared memory");
    Mapping sizes = LEAT_TRY(Mapping::of_file(memory.get(), kSize, true));
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return io_error("cannot make a socket");
    UniqueFd ours(ends[0]);
    const UniqueFd theirs(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return io_error("cannot start the guard of files");
    if (child == 0) {
        ours.reset();
        be_guard(theirs.get(), sizes);
    }
    return std::unique_ptr<FileGuard>(new FileGuard(std::move(sizes), std::move(ours), child));
}

FileGuard::FileGuard(Mapping sizes, UniqueFd socket, pid_t child)
    : sizes_(std::move(sizes)), socket_(std::move(socket)), child_(child) {
    for (std::uint32_t slot = kMaxFiles; slot > 0; --slot) free_.push_back(slot - 1);
}

FileGuard::~FileGuard() {
    socket_.reset();
    ::waitpid(child_, nullptr, 0);
}

// No slot, or no child any more: the file goes unguarded, and after a kill its tail is not cut.
std::optional<FileGuard::Guarded> FileGuard::guard(int fd) {
    const std::lock_guard lock(mutex_);
    if (free_.empty() || ::waitpid(child_, nullptr, WNOHANG) != 0) return std::nullopt;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    size_in(sizes_, slot).store(0);
    send_order(socket_.get(), {slot}, fd);
    return Guarded(*this, slot);
}

FileGuard::Guarded::~Guarded() {
    if (guard_ == nullptr) return;
    const std::lock_guard lock(guard_->mutex_);
    send_order(guard_->socket_.get(), {slot_}, -1);
    guard_->free_.push_back(slot_);
}

void FileGuard::Guarded::set_size(std::uint64_t size) { size_in(guard_->sizes_, slot_).store(size); }

}  // namespace leat::relay
