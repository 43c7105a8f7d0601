#include "net/stream_socket.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/fault_guard.hpp"

namespace leat::net {
namespace {

// A relay never sends this much at once.
constexpr std::size_t kMaxUnreadReplies = 1U << 20;

}  // namespace

Result<StreamSocket> StreamSocket::connect(const HostAddress& host, std::uint16_t port) {
    return StreamSocket(LEAT_TRY(start_connecting(host, port)));
}

bool StreamSocket::is_connected() const {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    return ::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0;  // NOLINT(*-reinterpret-cast)
}

Result<void> StreamSocket::connection_error() const {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return fail(ErrorKind::kIo, "{}", std::strerror(error));
    return {};
}

Result<std::size_t> StreamSocket::send_some(std::span<iovec> parts) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t count = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (count >= 0) return static_cast<std::size_t>(count);
    // Of a ring in a file that somebody has shortened: what is gone is sent as zeros.
    const bool is_gone = errno == EFAULT && std::ranges::any_of(parts, [](const iovec& part) {
                             return FaultGuard::touch({static_cast<const std::byte*>(part.iov_base), part.iov_len});
                         });
    if (errno == EAGAIN || errno == EINTR || is_gone) return 0;
    return io_error("cannot send");
}

Result<std::size_t> StreamSocket::receive_some(std::span<std::byte> bytes) {
    for (;;) {
        const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
        if (count > 0) return static_cast<std::size_t>(count);
        if (count == 0) return fail(ErrorKind::kIo, "the relay closed the connection");
        if (errno == EAGAIN) return 0;
        if (errno != EINTR) return io_error(errno == ECONNREFUSED ? "cannot connect" : "cannot receive");
    }
}

Result<void> StreamSocket::receive_into(std::vector<std::byte>& bytes) {
    std::array<std::byte, 4096> piece{};
    while (bytes.size() < kMaxUnreadReplies) {
        const std::size_t count = LEAT_TRY(receive_some(piece));
        bytes.insert(bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count));
        if (count < piece.size()) return {};
    }
    return corrupt("it sends what nobody asked for");
}

std::uint64_t StreamSocket::acknowledged_bytes() const {
    tcp_info info{};
    socklen_t size = sizeof info;
    ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size);  // fails: 0
    return info.tcpi_bytes_acked;
}

void StreamSocket::acknowledge_at_once() const {
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

Result<void> SendQueue::flush(StreamSocket& socket) {
    while (!is_empty()) {
        iovec rest{bytes_.data() + sent_, size()};
        const std::size_t count = LEAT_TRY(socket.send_some(std::span(&rest, 1)));
        if (count == 0) break;
        sent_ += count;
    }
    // A queue that never becomes empty gives back what it has sent, too.
    if (sent_ * 2 < bytes_.size()) return {};
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(sent_));
    sent_ = 0;
    return {};
}

}  // namespace leat::net
