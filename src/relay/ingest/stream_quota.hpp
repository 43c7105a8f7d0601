#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace leat::relay {

// Open streams take descriptors, which all peers share: so many each peer may have. Nor may one producer of a peer have
// them all: at most kPerFree for each one that it leaves to the others of that peer. Any thread; places may outlive it.
class StreamQuota {
  public:
    // Descriptors that a stream keeps open.
    static constexpr std::size_t kOfData = 2;      // data, index; for each of its files that is open
    static constexpr std::size_t kOfMetadata = 3;  // metadata, sync file, their directory
    static constexpr std::size_t kPerFree = 8;

    explicit StreamQuota(std::size_t descriptors_of_a_peer) : most_(descriptors_of_a_peer) {}

    [[nodiscard]] std::size_t most() const { return most_; }

    // Given back when it goes.
    using Place = std::shared_ptr<void>;
    // Null: this peer, or this producer of it, has as many as it may.
    Place take(const std::string& peer, std::uint64_t producer, std::size_t descriptors) {
        const auto state = state_;
        const std::pair key(peer, producer);
        const std::lock_guard lock(state->mutex);
        const std::size_t all = taken(state->of_peer, peer) + descriptors;
        const std::size_t own = taken(state->of_producer, key) + descriptors;
        if (all > most_ || own > kPerFree * (most_ - all)) return nullptr;
        state->of_peer[peer] = all;
        state->of_producer[key] = own;
        return {state.get(), [state, key, descriptors](void*) {
                    const std::lock_guard again(state->mutex);
                    give_back(state->of_peer, key.first, descriptors);
                    give_back(state->of_producer, key, descriptors);
                }};
    }

  private:
    struct State {
        std::mutex mutex;
        std::map<std::string, std::size_t> of_peer;
        std::map<std::pair<std::string, std::uint64_t>, std::size_t> of_producer;
    };

    template <class Counts>
    static std::size_t taken(const Counts& counts, const typename Counts::key_type& key) {
        const auto found = counts.find(key);
        return found == counts.end() ? 0 : found->second;
    }
    template <class Counts>
    static void give_back(Counts& counts, const typename Counts::key_type& key, std::size_t count) {
        const auto found = counts.find(key);
        found->second -= count;
        if (found->second == 0) counts.erase(found);
    }

    std::size_t most_;
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace leat::relay
