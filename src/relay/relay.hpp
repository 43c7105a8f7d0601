#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "relay/confined_directory.hpp"
#include "relay/session.hpp"

namespace leat::relay {

// All sessions there are, by the ids that this relay gives. Any thread.
class Relay {
  public:
    Relay(ConfinedDirectory output, FileGuard* guard) : output_(std::move(output)), guard_(guard) {}

    // Gives the session its id and its directory.
    Result<std::shared_ptr<Session>> create_session(const wire::CreateSession& request, std::uint32_t minor);
    // The control connection is gone: no viewer finds the session any more; those attached read on.
    void remove_session(const Session& session);

    // For streams, metadata and traces: unique as long as the relay runs.
    std::uint64_t next_handle() { return next_handle_.fetch_add(1); }
    std::uint64_t next_trace_id() { return next_trace_id_.fetch_add(1); }
    std::uint64_t next_viewer_id() { return next_viewer_id_.fetch_add(1); }
    // The session that a stream belongs to; null if there is none.
    void add_handle(std::uint64_t handle, const std::shared_ptr<Session>& session);
    [[nodiscard]] std::shared_ptr<Session> session_of(std::uint64_t handle) const;
    // For DatagramReceiver, which must not take our lock for each handle that a stranger makes up: how many handles
    // were added so far, and those that were added since the last call.
    struct NewHandle {
        std::uint64_t handle;
        std::weak_ptr<Session> session;
    };
    [[nodiscard]] std::uint64_t handles_added() const { return handles_added_.load(std::memory_order_acquire); }
    std::vector<NewHandle> take_new_handles();

    [[nodiscard]] std::shared_ptr<Session> find_session(std::uint64_t id) const;
    [[nodiscard]] std::vector<std::shared_ptr<Session>> sessions() const;
    // That have lost their control connection, and whose data may still be on its way.
    [[nodiscard]] std::vector<std::shared_ptr<Session>> ending_sessions() const;
    void forget(const std::shared_ptr<Session>& ending_session);

    static constexpr std::size_t kMaxSessions = 4096;

  private:
    // What the parts of one recording session have in common.
    using DirectoryKey = std::pair<std::array<std::uint8_t, 16>, std::uint64_t>;

    Result<std::shared_ptr<SessionDirectory>> directory_for(const wire::CreateSession& request, std::uint32_t minor);
    Result<std::string> unused_path(const std::string& path) const;

    ConfinedDirectory output_;
    FileGuard* guard_;
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
    std::vector<std::shared_ptr<Session>> ending_;
    std::map<std::uint64_t, std::weak_ptr<Session>> session_of_;
    std::vector<NewHandle> new_handles_;
    std::atomic<std::uint64_t> handles_added_{0};
    std::map<DirectoryKey, std::weak_ptr<SessionDirectory>> directories_;
    std::uint64_t next_session_ = 1;
    std::atomic<std::uint64_t> next_handle_{1};
    std::atomic<std::uint64_t> next_trace_id_{1};
    std::atomic<std::uint64_t> next_viewer_id_{1};
};

}  // namespace leat::relay
