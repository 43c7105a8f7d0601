#include "consumer/relay_socket.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace leat::consumer {
namespace {

// A host that is gone sends nothing, not even a reset: this long without its acknowledgement, and we connect anew.
constexpr unsigned kUserTimeoutMs = 60'000;
constexpr int kKeepAliveIdleSeconds = 20;

// A relay never sends this much at once.
constexpr std::size_t kMaxUnreadReplies = 1U << 20;

template <class T>
void set_option(const UniqueFd& socket, int level, int option, T value) {
    ::setsockopt(socket.get(), level, option, &value, sizeof value);  // without it works too, only worse
}

bool connect(const UniqueFd& socket, const sockaddr_storage& address) {
    const socklen_t size = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    const auto* peer = reinterpret_cast<const sockaddr*>(&address);  // NOLINT(*-reinterpret-cast)
    return ::connect(socket.get(), peer, size) == 0;
}

}  // namespace

Result<UniqueFd> start_connecting(const HostAddress& host, std::uint16_t port) {
    const sockaddr_storage address = host.with_port(port);
    UniqueFd socket(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) return io_error("cannot create a socket");
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    if (!connect(socket, address) && errno != EINPROGRESS) return io_error("cannot connect");
    return socket;
}

Result<UniqueFd> open_datagram_socket(const HostAddress& host, std::uint16_t port) {
    const sockaddr_storage address = host.with_port(port);
    UniqueFd socket(::socket(address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) return io_error("cannot create a socket");
    // A network of small frames may take them apart: that is better than none.
    if (address.ss_family == AF_INET6)
        set_option(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DONT);
    else
        set_option(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
    if (!connect(socket, address)) return io_error("cannot connect");
    return socket;
}

bool is_connected(const UniqueFd& socket) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    return ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0;  // NOLINT(*-reinterpret-cast)
}

Result<std::size_t> send_some(const UniqueFd& socket, std::span<iovec> parts) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t count = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN || errno == EINTR) return 0;
    return io_error("cannot send");
}

std::uint64_t acknowledged_bytes(const UniqueFd& socket) {
    tcp_info info{};
    socklen_t size = sizeof info;
    ::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size);  // fails: 0
    return info.tcpi_bytes_acked;
}

Result<void> receive_some(const UniqueFd& socket, wire::Bytes& bytes) {
    std::array<std::byte, 4096> piece{};
    while (bytes.size() < kMaxUnreadReplies) {
        const ssize_t count = ::recv(socket.get(), piece.data(), piece.size(), 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) return {};
        if (count < 0) return io_error("cannot receive");
        if (count == 0) return fail(ErrorKind::kIo, "it closed the connection");
        bytes.insert(bytes.end(), piece.begin(), piece.begin() + count);
        if (static_cast<std::size_t>(count) < piece.size()) return {};
    }
    return corrupt("it sends what nobody asked for");
}

Result<void> SendQueue::flush(const UniqueFd& socket) {
    while (!is_empty()) {
        iovec rest{bytes_.data() + sent_, size()};
        const std::size_t count = LEAT_TRY(send_some(socket, std::span(&rest, 1)));
        if (count == 0) return {};
        sent_ += count;
    }
    bytes_.clear();
    sent_ = 0;
    return {};
}

}  // namespace leat::consumer
