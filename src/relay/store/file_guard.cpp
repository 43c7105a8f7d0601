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

// From us to the child. With descriptors: guard the file, and its index if there is one. Without: forget them.
struct Order {
    std::uint32_t slot;
};

// Two pairs of sizes of a file. One is in force; the next sizes are written over the other.
struct Slot {
    std::array<FileGuard::Sizes, 2> sizes;
    std::uint64_t holds;  // which of them
};

Slot& slot_in(const Mapping& slots, std::uint32_t slot) { return reinterpret_cast<Slot*>(slots.data())[slot]; }

void send_order(int socket, const Order& order, std::span<const int> fds) {
    // It fails if the child is gone: guard() asks beforehand.
    (void)send_with_fds(socket, std::as_bytes(std::span(&order, 1)), fds);
}

// The child's memory: what it would cut.
struct File {
    int data = -1;
    int index = -1;
};
using Files = std::array<File, FileGuard::kMaxFiles>;

// One order; false: nobody is there any more to give one.
bool take_order(int socket, Files& files) {
    Order order{};
    const MessageWithFds received = receive_with_fds(socket, std::as_writable_bytes(std::span(&order, 1)), 0);
    if (received.size != sizeof order || order.slot >= files.size()) return false;
    File& file = files[order.slot];
    for (const int fd : {file.data, file.index})
        if (fd >= 0) ::close(fd);
    file.data = received.fd_count >= 1 ? received.fds[0] : -1;
    file.index = received.fd_count >= 2 ? received.fds[1] : -1;
    return true;
}

void cut(const File& file, Slot& slot) {
    const FileGuard::Sizes sizes = slot.sizes[std::atomic_ref(slot.holds).load()];
    if (file.data >= 0) (void)!::ftruncate(file.data, static_cast<off_t>(sizes.data));
    if (file.index >= 0) (void)!::ftruncate(file.index, static_cast<off_t>(sizes.index));
}

// Nothing of the parent's is touched but its signals' dispositions: only async-signal-safe calls, for the parent may be
// anything.
[[noreturn]] void be_guard(int socket, const Mapping& slots) {
    ::setsid();
    ::prctl(PR_SET_NAME, "relayd-guard");
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int standard : {0, 1, 2}) ::dup2(null, standard);
    Files files{};
    while (take_order(socket, files)) {
    }
    for (std::uint32_t slot = 0; slot < files.size(); ++slot) cut(files[slot], slot_in(slots, slot));
    ::_exit(0);
}

}  // namespace

// The child shares the sizes, which we write without a system call, and is given the descriptors. It notices our end,
// of whatever kind, by the end of the socket: only we have the other end.
Result<std::unique_ptr<FileGuard>> FileGuard::start() {
    constexpr std::size_t kSize = kMaxFiles * sizeof(Slot);
    const UniqueFd memory(::memfd_create("guarded files", MFD_CLOEXEC));
    if (!memory.is_open() || ::ftruncate(memory.get(), kSize) != 0) return io_error("cannot make shared memory");
    Mapping slots = LEAT_TRY(Mapping::of_file(memory.get(), kSize, true));
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return io_error("cannot make a socket");
    UniqueFd ours(ends[0]);
    const UniqueFd theirs(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return io_error("cannot start the guard of files");
    if (child == 0) {
        ours.reset();
        be_guard(theirs.get(), slots);
    }
    return std::unique_ptr<FileGuard>(new FileGuard(std::move(slots), std::move(ours), child));
}

FileGuard::FileGuard(Mapping slots, UniqueFd socket, pid_t child)
    : slots_(std::move(slots)), socket_(std::move(socket)), child_(child) {
    for (std::uint32_t slot = kMaxFiles; slot > 0; --slot) free_.push_back(slot - 1);
}

FileGuard::~FileGuard() {
    socket_.reset();
    ::waitpid(child_, nullptr, 0);
}

// No slot, or no child any more: the file goes unguarded, and after a kill its tail is not cut.
std::optional<FileGuard::Guarded> FileGuard::guard(int data, int index, Sizes sizes) {
    const std::lock_guard lock(mutex_);
    if (free_.empty() || ::waitpid(child_, nullptr, WNOHANG) != 0) return std::nullopt;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    slot_in(slots_, slot) = {.sizes = {sizes}, .holds = 0};
    const std::array fds{data, index};
    send_order(socket_.get(), {slot}, std::span(fds).first(index >= 0 ? 2 : 1));
    return Guarded(*this, slot);
}

FileGuard::Guarded::~Guarded() {
    if (guard_ == nullptr) return;
    const std::lock_guard lock(guard_->mutex_);
    send_order(guard_->socket_.get(), {slot_}, {});
    guard_->free_.push_back(slot_);
}

void FileGuard::Guarded::set_sizes(Sizes sizes) {
    Slot& slot = slot_in(guard_->slots_, slot_);
    const std::uint64_t next = 1 - slot.holds;
    slot.sizes[next] = sizes;
    std::atomic_ref(slot.holds).store(next);
}

}  // namespace leat::relay
