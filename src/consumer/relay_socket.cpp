#include "consumer/relay_socket.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace leat::consumer {
namespace {

// A relay never sends this much at once.
constexpr std::size_t kMaxUnreadReplies = 1U << 20;

}  // namespace

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
