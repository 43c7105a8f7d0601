#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "relay/ingest/stream_handles.hpp"
#include "relay/ingest/stream_quota.hpp"
#include "relay/store/confined_directory.hpp"
#include "relay/store/grouping.hpp"
#include "relay/store/stored_session.hpp"
#include "relay/traffic.hpp"

namespace leat::relay {

// Who speaks on a connection. As long as nobody has to prove who he is, that is the address that he speaks from.
struct Principal {
    std::string address{};
};

// What the operator has decided.
struct Policy {
    bool is_clear_allowed = true;
    Grouping grouping = Grouping::kByHost;
};

// All sessions there are, by the ids that this relay gives. Any thread.
class Relay {
  public:
    explicit Relay(ConfinedDirectory output, FileKeepers keepers = {},
                   std::shared_ptr<StreamHandles> handles = std::make_shared<StreamHandles>())
        : output_(std::move(output)), keepers_(std::move(keepers)), handles_(std::move(handles)) {}

    // Before anything else is called.
    void set_policy(const Policy& policy) { policy_ = policy; }
    [[nodiscard]] const Policy& policy() const { return policy_; }

    // Gives the session its id and its directory. Old peers (minors below 11) name that with their streams:
    Result<std::shared_ptr<StoredSession>> create_session(const wire::CreateSession& request, std::uint32_t minor,
                                                          const Principal& principal);
    // what `path` names, for one session.
    Result<std::shared_ptr<SessionDirectory>> directory_of_old(const std::string& path);
    // The control connection is gone: no viewer finds the session any more; those attached read on.
    void remove_session(const StoredSession& session);

    // For sessions, as viewers know them, traces and streams: unique as long as the relay runs, and growing.
    std::uint64_t next_id() { return next_id_.fetch_add(1); }
    [[nodiscard]] StreamHandles& handles() { return *handles_; }
    [[nodiscard]] StreamQuota& quota() { return quota_; }
    [[nodiscard]] Traffic& traffic() { return *traffic_; }
    // For streams, which may outlive the relay.
    [[nodiscard]] std::shared_ptr<Traffic> shared_traffic() { return traffic_; }
    // Null: nothing is brought to disk before the system does it by itself.
    [[nodiscard]] DiskSync* sync() const { return keepers_.sync.get(); }

    [[nodiscard]] std::shared_ptr<StoredSession> find_session(std::uint64_t id) const;
    [[nodiscard]] std::vector<std::shared_ptr<StoredSession>> sessions() const;
    // That have lost their control connection, and whose data may still be on its way.
    [[nodiscard]] std::vector<std::shared_ptr<StoredSession>> ending_sessions() const;
    void forget(const std::shared_ptr<StoredSession>& ending_session);

    // More than connections may be (Admission), of one peer or of all.
    static constexpr std::size_t kMaxSessions = 16384;

  private:
    static std::size_t default_quota();
    [[nodiscard]] std::size_t session_count() const;
    Result<std::shared_ptr<SessionDirectory>> directory_for(const wire::CreateSession& request,
                                                            const Principal& principal);
    Result<std::shared_ptr<SessionDirectory>> known_or_made(const std::string& key, const std::string& path,
                                                            bool may_be_found);
    [[nodiscard]] std::string beside_others(std::string path) const;
    [[nodiscard]] bool is_in_use(const std::string& path) const;

    Policy policy_{};
    ConfinedDirectory output_;
    FileKeepers keepers_;
    const std::shared_ptr<StreamHandles> handles_;
    StreamQuota quota_{default_quota()};
    const std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();
    // Held while directories are made; taken before the other.
    std::mutex directories_mutex_;
    std::map<std::string, std::weak_ptr<SessionDirectory>>
        directories_;  // by what the parts of a session have in common
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::shared_ptr<StoredSession>> sessions_;
    std::vector<std::shared_ptr<StoredSession>> ending_;
    std::uint64_t next_session_ = 1;
    std::atomic<std::uint64_t> next_id_{1};
};

}  // namespace leat::relay
