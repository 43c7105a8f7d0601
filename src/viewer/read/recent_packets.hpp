#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace leat::viewer {

// What is kept of packets, for events of many that alternate. Packets that begin about the same time have numbers close
// to each other, so most keep places of their own; of two that share one, the later takes it. No packet has the number
// 0.
template <class Kept>
class RecentPackets {
  public:
    // Of this packet: empty, if nothing is kept of it. Valid until the next call of a function.
    [[nodiscard]] Kept& of(std::uint64_t number) {
        Place& place = places_[number % kPlaces];
        if (place.number != number) place = {.number = number};
        return place.kept;
    }
    void forget() { places_ = make(); }

  private:
    static constexpr std::size_t kPlaces = 4096;
    struct Place {
        std::uint64_t number = 0;
        Kept kept{};
    };
    // An empty place is one of zeros.
    static_assert(std::is_trivially_copyable_v<Place>);
    struct Free {
        void operator()(Place* places) const { std::free(places); }  // NOLINT(*-no-malloc): from calloc
    };
    using Places = std::unique_ptr<Place[], Free>;

    // The system has cleared this memory, and gives none for places that nobody uses: most traces have few packets.
    static Places make() {
        void* const memory = std::calloc(kPlaces, sizeof(Place));  // NOLINT(*-no-malloc)
        if (memory == nullptr) throw std::bad_alloc();
        return Places(static_cast<Place*>(memory));
    }

    Places places_ = make();
};

}  // namespace leat::viewer
