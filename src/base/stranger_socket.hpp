// A connection to who may mean harm: closing it, and what it has brought, holds nobody up.
#pragma once

#include <sys/types.h>

#include <span>
#include <utility>

#include "base/unique_fd.hpp"

namespace leat {

// Owns a connected AF_UNIX socket. Whoever is at its other end may have sent descriptors (SCM_RIGHTS), and the last one
// of a file may take long to close: that of a TCP connection waits until all is sent, for as long as SO_LINGER says.
// Descriptors that are not taken are closed with the message, or with the socket: if anything was not received, a
// thread that ends closes it. (Before Linux 6.9, whoever closes any AF_UNIX socket may have to close what others have
// sent in circles; that stays.)
class StrangerSocket {
  public:
    StrangerSocket() = default;
    explicit StrangerSocket(UniqueFd socket);
    StrangerSocket(StrangerSocket&&) = default;
    StrangerSocket& operator=(StrangerSocket&& other) noexcept {
        std::swap(socket_, other.socket_);
        return *this;
    }
    StrangerSocket(const StrangerSocket&) = delete;
    StrangerSocket& operator=(const StrangerSocket&) = delete;
    ~StrangerSocket();

    // For a process that will have many descriptors, while it has few, and one thread: whoever closes a socket copies
    // those up to that number alone. Closing a copy of a file of a network writes out what is there.
    static void reserve_low_number();

    [[nodiscard]] int get() const { return socket_.get(); }
    // Whether the message that comes next has any: then nobody who wants none should receive it.
    [[nodiscard]] bool brings_descriptors() const;
    // Of a stream, as recv() that does not wait. ECANCELED: what comes next has descriptors.
    [[nodiscard]] ssize_t receive(std::span<char> bytes) const;

  private:
    UniqueFd socket_;
};

}  // namespace leat
