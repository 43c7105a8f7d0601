#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ctf/decode/decode_plan.hpp"
#include "ctf/decode/event_cursor.hpp"
#include "ctf/decode/event_layout.hpp"
#include "ctf/decode/event_place.hpp"
#include "ctf/decode/header_form.hpp"
#include "ctf/model/clock.hpp"

namespace leat::ctf {

// Plain events of one kind, and all that it takes to find more of them behind the last one.
struct AlikeEvents {
    HeaderForm form{};
    DecodePlan::PlainEvent event{};
    PlainRun context{};                          // the event context
    std::span<const PlainRun> behind_strings{};  // of the event
    std::uint64_t id = 0;
    std::uint64_t fields = 0;  // of each, with those of its context
    std::uint64_t size = 0;    // of the last one: bits from the begin of its header to its end
    Clock::Simple clock{};
};

// Finds some that follow and moves the cursor behind them; returns how many. None of them is of another kind, near the
// end of the packet, has a long string, or a time that is no simple one; only the last is of another size.
[[nodiscard]] std::size_t locate_alike_events(const AlikeEvents& alike, EventCursor& cursor,
                                              std::span<EventPlace> places);

}  // namespace leat::ctf
