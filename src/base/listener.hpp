#pragma once

#include <string>
#include <utility>

#include "base/unique_fd.hpp"

namespace leat {

// A socket that listens and never blocks. If this process has no descriptor left, whoever connects is hung up on, and
// the log says so: otherwise they would wait, and the socket would stay readable, for as long as that lasts.
class Listener {
  public:
    Listener() = default;
    // `what`, for the log: "clients".
    Listener(UniqueFd socket, std::string what);
    Listener(Listener&&) = default;
    Listener& operator=(Listener&& other) noexcept;
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    ~Listener();

    [[nodiscard]] int fd() const { return socket_.get(); }
    [[nodiscard]] bool is_open() const { return socket_.is_open(); }

    // The next one that waits, not blocking and closed at exec; none: not open.
    UniqueFd accept();
    // The socket, which is not ours any more.
    UniqueFd release() { return std::move(socket_); }

  private:
    UniqueFd accept_now() const;
    void turn_all_away();

    UniqueFd socket_;
    UniqueFd spare_;  // given up for a moment to hang up
    std::string what_;
};

}  // namespace leat
