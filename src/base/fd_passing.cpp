#include "base/fd_passing.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/check.hpp"

namespace leat {
namespace {

// The kernel does not restart a call on a socket that has a timeout: neither after a handler, whatever SA_RESTART says,
// nor after SIGSTOP and SIGCONT, of which the program knows nothing.
template <class Call>
ssize_t despite_signals(Call call) {
    ssize_t result = 0;
    do result = call();
    while (result < 0 && errno == EINTR);
    return result;
}

}  // namespace

ssize_t send_with_fds(int socket, UntrustedBytes bytes, std::span<const int> fds, int flags) {
    LEAT_CHECK(fds.size() <= kMaxFds);
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT(*-const-cast): sendmsg only reads
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* const beside = CMSG_FIRSTHDR(&message);
        beside->cmsg_level = SOL_SOCKET;
        beside->cmsg_type = SCM_RIGHTS;
        beside->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(beside), fds.data(), fds.size_bytes());
    }
    return despite_signals([&] { return ::sendmsg(socket, &message, flags | MSG_NOSIGNAL); });
}

MessageWithFds receive_with_fds(int socket, std::span<std::byte> bytes, int flags) {
    MessageWithFds received;
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof received.fds)> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    received.size = despite_signals([&] { return ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC); });
    if (received.size < 0) return received;
    received.is_cut = (message.msg_flags & MSG_TRUNC) != 0;
    received.has_lost_fds = (message.msg_flags & MSG_CTRUNC) != 0;
    for (cmsghdr* beside = CMSG_FIRSTHDR(&message); beside != nullptr; beside = CMSG_NXTHDR(&message, beside)) {
        if (beside->cmsg_level != SOL_SOCKET || beside->cmsg_type != SCM_RIGHTS) continue;
        // The control buffer has room for four: the kernel closes what does not fit.
        received.fd_count = (beside->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        std::memcpy(received.fds.data(), CMSG_DATA(beside), received.fd_count * sizeof(int));
    }
    return received;
}

}  // namespace leat
