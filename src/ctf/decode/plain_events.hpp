#pragma once

#include <cstddef>
#include <span>

#include "ctf/decode/decode_plan.hpp"
#include "ctf/decode/event_cursor.hpp"
#include "ctf/decode/event_place.hpp"
#include "ctf/model/clock.hpp"

namespace leat::ctf {

// The short way through a packet: finds events with short headers and small ids in which nothing is a length or a tag,
// up to the first other one, and moves the cursor behind them. Returns how many there are. `clock`: the stream's; null:
// none.
[[nodiscard]] std::size_t locate_plain_events(const DecodePlan& plan, const Clock* clock, EventCursor& cursor,
                                              std::span<EventPlace> places);

}  // namespace leat::ctf
