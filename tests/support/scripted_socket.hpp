// The other end of a viewer's connection. It sends what a test has written down, whatever it is asked.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <type_traits>
#include <utility>

#include "base/unique_fd.hpp"
#include "net/waiting_socket.hpp"
#include "wire/live/live_messages.hpp"

namespace leat::test {

// Well done, whatever type the status of a message has.
struct Ok {
    template <class Status>
        requires std::is_enum_v<Status>
    constexpr operator Status() const {  // NOLINT(*-explicit-*)
        return Status::kOk;
    }
};
constexpr Ok kOk;

class ScriptedSocket {
  public:
    // Sends all at once, or byte by byte, and closes.
    explicit ScriptedSocket(wire::Bytes replies, bool is_slow = false) {
        int ends[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        ours_ = UniqueFd(ends[0]);
        theirs_ = UniqueFd(ends[1]);
        thread_ = std::thread([this, replies = std::move(replies), is_slow] { serve(replies, is_slow); });
    }
    ~ScriptedSocket() {
        ::shutdown(theirs_.get(), SHUT_RDWR);
        thread_.join();
    }
    ScriptedSocket(const ScriptedSocket&) = delete;
    ScriptedSocket& operator=(const ScriptedSocket&) = delete;

    // The socket for the viewer. Call this once.
    net::WaitingSocket take() {
        ::fcntl(ours_.get(), F_SETFL, O_NONBLOCK);
        return {std::move(ours_), -1};
    }

  private:
    void serve(UntrustedBytes replies, bool is_slow) {
        while (!replies.empty()) {
            const auto piece = replies.first(is_slow ? 1 : replies.size());
            const ssize_t count = ::send(theirs_.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
            if (count <= 0) return;
            replies = replies.subspan(static_cast<std::size_t>(count));
        }
        ::shutdown(theirs_.get(), SHUT_WR);
    }

    UniqueFd ours_;
    UniqueFd theirs_;
    std::thread thread_;
};

}  // namespace leat::test
