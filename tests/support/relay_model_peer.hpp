// One connection of RelayModel to the relay. It sends without ever blocking for good, and waits for replies.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>

#include "base/unique_fd.hpp"
#include "support/patience.hpp"
#include "wire/layout.hpp"

namespace leat::test {

inline sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
}

class ModelPeer {
  public:
    enum class Outcome : std::uint8_t { kDone, kClosed, kSilent };
    static inline const std::chrono::seconds kPatience = test_patience();

    // `impatient` is called once when an answer takes long, because the disk may be full.
    void connect(std::uint16_t port, std::function<void()> impatient) {
        impatient_ = std::move(impatient);
        fd_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const sockaddr_in address = loopback(port);
        if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {  // NOLINT
            fd_.reset();
            return;
        }
        const int on = 1;
        ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    [[nodiscard]] bool is_open() const { return fd_.is_open(); }

    Outcome send(UntrustedBytes bytes) {
        const Deadline deadline(*this);
        while (!bytes.empty()) {
            if (!is_open()) return Outcome::kClosed;
            const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
            if (count >= 0) {
                bytes = bytes.subspan(static_cast<std::size_t>(count));
            } else if (errno == EAGAIN) {
                if (!deadline.wait(POLLOUT)) return Outcome::kSilent;
            } else {
                return Outcome::kClosed;
            }
        }
        return Outcome::kDone;
    }

    // Receives exactly so many bytes.
    Outcome receive(std::size_t size, wire::Bytes& bytes) {
        bytes.resize(size);
        const Deadline deadline(*this);
        for (std::size_t done = 0; done < size;) {
            if (!is_open()) return Outcome::kClosed;
            const ssize_t count = ::recv(fd_.get(), bytes.data() + done, size - done, MSG_DONTWAIT);
            if (count > 0) {
                done += static_cast<std::size_t>(count);
            } else if (count < 0 && errno == EAGAIN) {
                if (!deadline.wait(POLLIN)) return Outcome::kSilent;
            } else {
                return Outcome::kClosed;
            }
        }
        return Outcome::kDone;
    }

    [[nodiscard]] bool has_input() const {
        pollfd waiting{fd_.get(), POLLIN, 0};
        return is_open() && ::poll(&waiting, 1, 0) > 0;
    }

    // Closes our side. Waits until the relay has ended what it has to end and has closed its side.
    Outcome finish() {
        if (!is_open()) return Outcome::kDone;
        ::shutdown(fd_.get(), SHUT_WR);
        return wait_for_end();
    }
    Outcome wait_for_end() {
        std::array<std::byte, 4096> piece{};
        const Deadline deadline(*this);
        while (is_open()) {
            const ssize_t count = ::recv(fd_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
            if (count > 0) continue;
            if (count == 0 || errno != EAGAIN) break;
            if (!deadline.wait(POLLIN)) return Outcome::kSilent;
        }
        fd_.reset();
        return Outcome::kDone;
    }
    // Cuts the connection. With `is_reset`, bytes on their way may be lost.
    void cut(bool is_reset) {
        const linger at_once{1, 0};
        if (is_reset && is_open()) ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        fd_.reset();
    }

  private:
    using Clock = std::chrono::steady_clock;
    class Deadline {
      public:
        explicit Deadline(const ModelPeer& peer) : peer_(&peer) {}
        // Returns false if nothing came for too long.
        [[nodiscard]] bool wait(short events) const {
            constexpr int kShort = 50;
            pollfd waiting{peer_->fd_.get(), events, 0};
            if (::poll(&waiting, 1, kShort) > 0) return true;
            if (peer_->impatient_) peer_->impatient_();
            const auto left = end_ - Clock::now();
            return left > Clock::duration::zero();
        }

      private:
        const ModelPeer* peer_;
        Clock::time_point end_ = Clock::now() + kPatience;
    };

    UniqueFd fd_;
    std::function<void()> impatient_;
};

}  // namespace leat::test
