#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace leat::relay {

class Session;

// Which session a stream belongs to, by the handle that its producer got. A data connection, or a datagram, says nothing
// else of who sends it: handles are random, and known to nobody but the producer. Any thread.
class StreamHandles {
  public:
    // Gives a handle to a stream of that session.
    std::uint64_t add(const std::shared_ptr<Session>& session);
    void remove(std::uint64_t handle);
    // Null if there is none.
    [[nodiscard]] std::shared_ptr<Session> session_of(std::uint64_t handle) const;

  private:
    mutable std::mutex mutex_;
    std::unordered_map<std::uint64_t, std::weak_ptr<Session>> sessions_;
};

}  // namespace leat::relay
