#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace leat::relay {

class StoredSession;

// Which session a stream belongs to, by the handle that its producer got. A data connection, or a datagram, says
// nothing else of who sends it: handles are random, and known to nobody but the producer. Any thread.
class StreamHandles {
  public:
    using Draw = std::function<std::uint64_t()>;
    explicit StreamHandles(Draw draw = draw_random) : draw_(std::move(draw)) {}
    static std::uint64_t draw_random();

    // Gives a handle to a stream of that session.
    std::uint64_t add(const std::shared_ptr<StoredSession>& session);
    void remove(std::uint64_t handle);
    // For DatagramReceiver, which must not take our lock for each handle that a stranger makes up: how many streams
    // were announced so far, and those that were since the last call.
    struct Announced {
        std::uint64_t handle;
        std::weak_ptr<StoredSession> session;
    };
    void announce(std::uint64_t handle, const std::shared_ptr<StoredSession>& session);
    [[nodiscard]] std::uint64_t announced() const { return announced_.load(std::memory_order_acquire); }
    std::vector<Announced> take_announced();
    // Null if there is none.
    [[nodiscard]] std::shared_ptr<StoredSession> session_of(std::uint64_t handle) const;

  private:
    const Draw draw_;
    mutable std::mutex mutex_;
    std::unordered_map<std::uint64_t, std::weak_ptr<StoredSession>> sessions_;
    std::vector<Announced> news_;
    std::atomic<std::uint64_t> announced_{0};
};

}  // namespace leat::relay
