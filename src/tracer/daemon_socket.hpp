// A connection to a daemon, for one exchange.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/app/app_protocol.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {

// Never blocks. Messages keep their bounds, and descriptors come along. All here is async-signal-safe, changes errno,
// and is no cancellation point: somebody else's thread must not end in the middle of ours.
class DaemonSocket {
  public:
    DaemonSocket() = default;
    ~DaemonSocket() { close(); }
    DaemonSocket(const DaemonSocket&) = delete;
    DaemonSocket& operator=(const DaemonSocket&) = delete;

    enum class Connected {
        kYes,
        kNotYet,  // too many wait before us; there is no event to wait for: try again
        kNobody,  // the place is there, and nobody listens
        kNo,      // there is no such place, or somebody there whom we do not trust
    };
    Connected connect(wire::Lane lane);
    // `fd` goes along, if it is one.
    bool send(const void* message, size_t size, int fd = -1);
    void close();

    [[nodiscard]] int fd() const { return fd_; }

  private:
    int fd_ = -1;
};

// Waits until some of the sockets can be read, whose numbers are not negative: no longer than `timeout_ms` (-1: for
// ever). Sets those that cannot be read to -1. False: none, or a signal came.
bool wait_until_readable(int* sockets, uint32_t count, int timeout_ms);

// One message of the daemon, and the descriptors that came with it, which are closed with this object.
// Async-signal-safe, and no cancellation point.
class Answer {
  public:
    Answer() = default;
    ~Answer();
    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;

    // False: nothing came, or what we do not know.
    bool receive(const DaemonSocket& socket);

    [[nodiscard]] bool is_channel() const;
    [[nodiscard]] const wire::ChannelMessage& channel() const { return message_; }
    // nullptr: the channel has none.
    [[nodiscard]] const wire::AppContextNames* app_contexts() const {
        return size_ == sizeof message_ ? nullptr : &names_;
    }
    [[nodiscard]] int ring_set_fd() const { return fds_[0]; }
    [[nodiscard]] int clock_fd() const { return fds_[1]; }

  private:
    wire::ChannelMessage message_{};
    wire::AppContextNames names_{};
    size_t size_ = 0;
    int fds_[wire::kChannelDescriptors] = {-1, -1};
    uint32_t fd_count_ = 0;
};

}  // namespace leat::tracer
