#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace leat::ring {

// Its records are there twice in a row (ring_format.hpp).
inline constexpr std::uint64_t kMappingsOfRing = 2;

// How many rings may be mapped at once, of all ring sets that share this: a process has so many mappings at most
// (vm.max_map_count), and programs say how many rings they use. Any thread.
class MapShare {
  public:
    explicit MapShare(std::uint64_t rings) : left_(static_cast<std::int64_t>(rings)) {}

    // All of them, or none: false.
    bool take(std::uint64_t rings) {
        const auto wanted = static_cast<std::int64_t>(rings);
        std::int64_t left = left_.load();
        while (left >= wanted)
            if (left_.compare_exchange_weak(left, left - wanted)) return true;
        return false;
    }
    // Of what is mapped already.
    void take_anyway(std::uint64_t rings) { left_ -= static_cast<std::int64_t>(rings); }
    void give_back(std::uint64_t rings) { left_ += static_cast<std::int64_t>(rings); }

  private:
    std::atomic<std::int64_t> left_;
};

// What one ring set has of a share, as long as it lives. Any thread.
class MapsOfShare {
  public:
    explicit MapsOfShare(std::shared_ptr<MapShare> share) : share_(std::move(share)) {}
    ~MapsOfShare() { share_->give_back(taken_); }
    MapsOfShare(const MapsOfShare&) = delete;
    MapsOfShare& operator=(const MapsOfShare&) = delete;

    bool take_one() {
        const bool is_taken = share_->take(1);
        if (is_taken) ++taken_;
        return is_taken;
    }
    void give_one_back() {
        --taken_;
        share_->give_back(1);
    }

  private:
    std::shared_ptr<MapShare> share_;
    std::atomic<std::uint64_t> taken_ = 0;
};

}  // namespace leat::ring
