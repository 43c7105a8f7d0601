#include "viewer/relay_socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace leat::viewer {
namespace {

using namespace std::chrono_literals;

constexpr auto kConnectPatience = 10s;
// Longer than a relay may take to answer WAIT.
constexpr auto kReplyPatience = 30s;
constexpr std::size_t kInputSize = 64U << 10U;

}  // namespace

Result<RelaySocket> RelaySocket::connect(const std::string& host, std::uint16_t port, int stop_fd) {
    Error error{};
    for (const wire::HostAddress& address : LEAT_TRY(wire::resolve(host))) {
        auto socket = connect(address, port, stop_fd);
        if (socket) return socket;
        error = std::move(socket).error();
    }
    return wrap("cannot connect: is a relay running there?", std::move(error));
}

Result<RelaySocket> RelaySocket::connect(const wire::HostAddress& address, std::uint16_t port, int stop_fd) {
    RelaySocket socket(LEAT_TRY(wire::start_connecting(address, port)), stop_fd);
    LEAT_TRY(socket.wait_for(POLLOUT, kConnectPatience));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return fail(ErrorKind::kIo, "{}", std::strerror(error));
    return socket;
}

Result<void> RelaySocket::wait_for(short events, std::chrono::milliseconds patience) const {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        std::array<pollfd, 2> wanted{{{fd_.get(), events, 0}, {stop_fd_, POLLIN, 0}}};
        const int count = ::poll(wanted.data(), wanted.size(), static_cast<int>(std::max(0ms, left) / 1ms));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return io_error("cannot wait for the relay");
        if (wanted[1].revents != 0) return refused("stopped");
        if (wanted[0].revents != 0) return {};
        if (left <= 0ms) return fail(ErrorKind::kIo, "no answer within {} s", patience / 1s);
    }
}

Result<void> RelaySocket::send(UntrustedBytes bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count >= 0)
            bytes = bytes.subspan(static_cast<std::size_t>(count));
        else if (errno == EAGAIN)
            LEAT_TRY(wait_for(POLLOUT, kReplyPatience));
        else if (errno != EINTR)
            return io_error("connection lost");
    }
    return {};
}

Result<void> RelaySocket::receive(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        if (taken_ < received_) {
            const std::size_t count = std::min(bytes.size(), received_ - taken_);
            std::memcpy(bytes.data(), input_.data() + taken_, count);
            taken_ += count;
            bytes = bytes.subspan(count);
        } else if (bytes.size() >= kInputSize) {
            // What is large goes where it belongs; what is small comes with what is behind it.
            bytes = bytes.subspan(LEAT_TRY(receive_some(bytes)));
        } else {
            input_.resize(kInputSize);
            taken_ = received_ = 0;
            received_ = LEAT_TRY(receive_some(input_));
        }
    }
    return {};
}

Result<std::size_t> RelaySocket::receive_some(std::span<std::byte> bytes) const {
    while (true) {
        const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
        if (count > 0) return static_cast<std::size_t>(count);
        if (count == 0) return fail(ErrorKind::kIo, "the relay closed the connection");
        if (errno != EAGAIN && errno != EINTR) return fail(ErrorKind::kIo, "connection lost: {}", std::strerror(errno));
        acknowledge_at_once();
        LEAT_TRY(wait_for(POLLIN, kReplyPatience));
    }
}

// LTTng's relay sends what belongs together in several writes, and the next one only when the last is acknowledged:
// 40 ms, if we leave that to the system. It forgets the wish with each acknowledgement.
void RelaySocket::acknowledge_at_once() const {
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

void RelaySocket::wait(std::chrono::milliseconds time) const {
    pollfd wanted{stop_fd_, POLLIN, 0};
    ::poll(&wanted, 1, static_cast<int>(time / 1ms));
}

bool RelaySocket::is_stopped() const {
    pollfd wanted{stop_fd_, POLLIN, 0};
    return ::poll(&wanted, 1, 0) == 1;
}

}  // namespace leat::viewer
