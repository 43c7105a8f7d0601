#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace leat::relay {

// Open streams take descriptors, which all peers share: so many each may have. Any thread; places may outlive it.
class StreamQuota {
  public:
    explicit StreamQuota(std::size_t streams_of_a_peer) : most_(streams_of_a_peer) {}

    [[nodiscard]] std::size_t most() const { return most_; }

    // Given back when it goes.
    using Place = std::shared_ptr<void>;
    // Null: this peer has as many as it may.
    Place take(const std::string& peer) {
        const auto state = state_;
        const std::lock_guard lock(state->mutex);
        std::size_t& count = state->of_peer[peer];
        if (count >= most_) return nullptr;
        ++count;
        return {state.get(), [state, peer](void*) {
                    const std::lock_guard again(state->mutex);
                    const auto found = state->of_peer.find(peer);
                    if (--found->second == 0) state->of_peer.erase(found);
                }};
    }

  private:
    struct State {
        std::mutex mutex;
        std::map<std::string, std::size_t> of_peer;
    };
    std::size_t most_;
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace leat::relay
