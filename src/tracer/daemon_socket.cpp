#include "tracer/daemon_socket.hpp"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tracer/daemon_directory.hpp"
#include "tracer/descriptors.hpp"
#include "tracer/trust.hpp"

namespace leat::tracer {
namespace {

// libc's functions of these names are cancellation points.
void close_fd(int fd) { syscall(SYS_close, fd); }

// Whoever listens: the kernel knows.
bool is_trusted_peer(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && is_trusted(peer.uid);
}

}  // namespace

DaemonSocket::Connected DaemonSocket::connect(wire::Lane lane) {
    sockaddr_un address{};
    if (!trusted_address(lane, address)) return Connected::kNo;
    if (fd_ < 0) fd_ = beyond_standard(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd_ < 0) return Connected::kNo;
    if (syscall(SYS_connect, fd_, &address, sizeof address) == 0)
        return is_trusted_peer(fd_) ? Connected::kYes : Connected::kNo;
    if (errno == ECONNREFUSED || errno == ENOENT) return Connected::kNobody;
    return errno == EAGAIN || errno == EINTR ? Connected::kNotYet : Connected::kNo;
}

bool DaemonSocket::send(const void* message, size_t size, int fd) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec bytes{const_cast<void*>(message), size};  // NOLINT(*-const-cast)
    msghdr envelope{};
    envelope.msg_iov = &bytes;
    envelope.msg_iovlen = 1;
    if (fd >= 0) {
        envelope.msg_control = control;
        envelope.msg_controllen = sizeof control;
        cmsghdr* descriptors = CMSG_FIRSTHDR(&envelope);
        descriptors->cmsg_level = SOL_SOCKET;
        descriptors->cmsg_type = SCM_RIGHTS;
        descriptors->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(descriptors), &fd, sizeof(int));
    }
    return syscall(SYS_sendmsg, fd_, &envelope, MSG_NOSIGNAL) == static_cast<long>(size);
}

void DaemonSocket::close() {
    if (fd_ >= 0) close_fd(fd_);
    fd_ = -1;
}

bool wait_until_readable(int* sockets, uint32_t count, int timeout_ms) {
    pollfd wanted[wire::kLanes];
    for (uint32_t i = 0; i < count; ++i) wanted[i] = {sockets[i], POLLIN, 0};
    timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
    const long readable = syscall(SYS_ppoll, wanted, count, timeout_ms < 0 ? nullptr : &timeout, nullptr, 0);
    for (uint32_t i = 0; i < count; ++i)
        if (readable <= 0 || wanted[i].revents == 0) sockets[i] = -1;
    return readable > 0;
}

Answer::~Answer() {
    for (const int fd : fds_)
        if (fd >= 0) close_fd(fd);
}

bool Answer::receive(const DaemonSocket& socket) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds_)] = {};
    iovec parts[]{{&message_, sizeof message_}, {&names_, sizeof names_}};
    msghdr envelope{};
    envelope.msg_iov = parts;
    envelope.msg_iovlen = 2;
    envelope.msg_control = control;
    envelope.msg_controllen = CMSG_LEN(sizeof fds_);  // not CMSG_SPACE: its padding has room for one more
    const long size = syscall(SYS_recvmsg, socket.fd(), &envelope, MSG_CMSG_CLOEXEC);
    if (size <= 0) return false;
    size_ = static_cast<size_t>(size);
    const cmsghdr* descriptors = CMSG_FIRSTHDR(&envelope);
    if (descriptors != nullptr && descriptors->cmsg_level == SOL_SOCKET && descriptors->cmsg_type == SCM_RIGHTS) {
        fd_count_ = static_cast<uint32_t>((descriptors->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds_, CMSG_DATA(descriptors), fd_count_ * sizeof(int));  // the kernel gives no more than fit
    }
    bool are_there = true;
    for (uint32_t i = 0; i < fd_count_; ++i) {
        fds_[i] = beyond_standard(fds_[i]);
        are_there = are_there && fds_[i] >= 0;
    }
    return are_there;
}

bool Answer::is_channel() const {
    const wire::AppMessageHeader& header = message_.header;
    const bool has_names = (message_.contexts & wire::kContextApp) != 0;
    return size_ == sizeof message_ + (has_names ? sizeof names_ : 0) && header.magic == wire::kAppMagic &&
           header.version == wire::kAppVersion && header.type == wire::AppMessageType::kChannel &&
           fd_count_ == wire::kChannelDescriptors &&
           ring::is_header_kind(static_cast<ring::HeaderKind>(message_.header_kind)) && message_.overwrites <= 1;
}

}  // namespace leat::tracer
