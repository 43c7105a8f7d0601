// Sends and receives descriptors beside bytes, over an AF_UNIX socket. Async-signal-safe: a child of fork() may call
// these. Signals interrupt neither: the call begins again, and so does its timeout.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>

#include "base/byte_cursor.hpp"

namespace leat {

// So many descriptors go with one message.
inline constexpr std::size_t kMaxFds = 4;

// Sends one message, with up to kMaxFds descriptors. `flags` as for sendmsg(), whose result it returns; never SIGPIPE.
ssize_t send_with_fds(int socket, UntrustedBytes bytes, std::span<const int> fds, int flags = 0);

struct MessageWithFds {
    ssize_t size = -1;               // what recvmsg() returned
    bool is_cut = false;             // it had more bytes than there was room for
    bool has_lost_fds = false;       // there was no room for them, or no descriptor left
    std::array<int, kMaxFds> fds{};  // owned by the caller
    std::size_t fd_count = 0;
};

// Receives one message into `bytes`; descriptors beyond the fourth are closed. `flags` as for recvmsg().
MessageWithFds receive_with_fds(int socket, std::span<std::byte> bytes, int flags);

}  // namespace leat
