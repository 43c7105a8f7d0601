#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace leat::relay {

class Session;

// Which session a stream belongs to, by the handle that its producer got. A data connection, or a datagram, says nothing
// else of who sends it: handles are random, and known to nobody but the producer. Any thread.
class StreamHandles {
  public:
    using Draw = std::function<std::uint64_t()>;
    explicit StreamHandles(Draw draw = draw_random) : draw_(std::move(draw)) {}
    static std::uint64_t draw_random();

    // Gives a handle to a stream of that session.
    std::uint64_t add(const std::shared_ptr<Session>& session);
    void remove(std::uint64_t handle);
    // Null if there is none.
    [[nodiscard]] std::shared_ptr<Session> session_of(std::uint64_t handle) const;

  private:
    const Draw draw_;
    mutable std::mutex mutex_;
    std::unordered_map<std::uint64_t, std::weak_ptr<Session>> sessions_;
};

}  // namespace leat::relay
