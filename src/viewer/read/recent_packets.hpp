#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace leat::viewer {

// What is kept of packets, for events of many that alternate. Packets that begin about the same time have numbers close
// to each other, so most keep places of their own; of two that share one, the later takes it.
template <class Kept>
class RecentPackets {
  public:
    // Of this packet: empty, if nothing is kept of it. Valid until the next call of a function.
    [[nodiscard]] Kept& of(std::uint64_t number) {
        Place& place = (*places_)[number % kPlaces];
        if (place.number != number) place = {.number = number};
        return place.kept;
    }
    void forget() { *places_ = {}; }

  private:
    static constexpr std::size_t kPlaces = 4096;
    struct Place {
        std::uint64_t number = 0;
        Kept kept{};
    };

    std::unique_ptr<std::array<Place, kPlaces>> places_ = std::make_unique<std::array<Place, kPlaces>>();
};

}  // namespace leat::viewer
