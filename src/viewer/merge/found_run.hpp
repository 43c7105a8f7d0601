#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ctf/decode/event_place.hpp"
#include "viewer/merge/message.hpp"

namespace leat::viewer {

// What was found in a stream and is not told yet. None: its message is no event, or has no time. Behind the last event
// is a place whose time is before all others, and two more.
struct FoundRun {
    const PacketView* packet = nullptr;
    const ctf::EventPlace* next = nullptr;
    const ctf::EventPlace* end = nullptr;
    std::int64_t after_next_ns = 0;  // time of the one after that: a loop can have it without waiting for `next`
    bool may_have_more = true;       // in its packet

    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(end - next); }
    // These are found and not told.
    void have(std::span<const ctf::EventPlace> places) {
        end = places.data() + places.size();
        begin_at(places.data());
    }
    void begin_at(const ctf::EventPlace* place) {
        next = place;
        after_next_ns = place[1].time_ns;
    }
};

}  // namespace leat::viewer
