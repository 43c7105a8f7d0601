#include "net/waiting_socket.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "net/bounded_wait.hpp"
#include "net/name_lookup.hpp"

namespace leat::net {
namespace {

using namespace std::chrono_literals;

constexpr auto kConnectPatience = 10s;
// Longer than a relay may take to answer WAIT.
constexpr auto kReplyPatience = 30s;
constexpr std::size_t kInputSize = 64U << 10U;

}  // namespace

Result<WaitingSocket> WaitingSocket::connect(const std::string& host, std::uint16_t port, int stop_fd) {
    Error error{};
    for (const HostAddress& address : LEAT_TRY(resolve_within(kConnectPatience, host, stop_fd))) {
        auto socket = connect(address, port, stop_fd);
        if (socket) return socket;
        error = std::move(socket).error();
    }
    return fail(error.kind, "cannot connect: {}: start leat-relayd there, or check the address", error.message);
}

Result<WaitingSocket> WaitingSocket::connect(const HostAddress& address, std::uint16_t port, int stop_fd) {
    WaitingSocket socket(LEAT_TRY(StreamSocket::connect(address, port)), stop_fd);
    LEAT_TRY(socket.wait_for(POLLOUT, kConnectPatience));
    LEAT_TRY(socket.socket_.connection_error());
    return socket;
}

Result<void> WaitingSocket::wait_for(short events, std::chrono::milliseconds patience) const {
    return net::wait_for(socket_.fd(), events, patience, stop_fd_);
}

Result<void> WaitingSocket::send(UntrustedBytes bytes) {
    while (!bytes.empty()) {
        iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT(*-const-cast)
        const std::size_t count = LEAT_TRY(socket_.send_some(std::span(&part, 1)));
        if (count == 0) LEAT_TRY(wait_for(POLLOUT, kReplyPatience));
        bytes = bytes.subspan(count);
    }
    return {};
}

Result<void> WaitingSocket::receive(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        if (taken_ < received_) {
            const std::size_t count = std::min(bytes.size(), received_ - taken_);
            std::memcpy(bytes.data(), input_.data() + taken_, count);
            taken_ += count;
            bytes = bytes.subspan(count);
        } else if (bytes.size() >= kInputSize) {
            // Receive a large rest in place, and a small one together with what follows it.
            bytes = bytes.subspan(LEAT_TRY(receive_some(bytes)));
        } else {
            input_.resize(kInputSize);
            taken_ = received_ = 0;
            received_ = LEAT_TRY(receive_some(input_));
        }
    }
    return {};
}

Result<std::size_t> WaitingSocket::receive_some(std::span<std::byte> bytes) {
    for (;;) {
        const std::size_t count = LEAT_TRY(socket_.receive_some(bytes));
        if (count != 0) return count;
        socket_.acknowledge_at_once();
        LEAT_TRY(wait_for(POLLIN, kReplyPatience));
    }
}

void WaitingSocket::wait(std::chrono::milliseconds time) const {
    pollfd wanted{stop_fd_, POLLIN, 0};
    ::poll(&wanted, 1, static_cast<int>(time / 1ms));
}

bool WaitingSocket::is_stopped() const {
    pollfd wanted{stop_fd_, POLLIN, 0};
    return ::poll(&wanted, 1, 0) == 1;
}

}  // namespace leat::net
