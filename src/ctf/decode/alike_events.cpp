#include "ctf/decode/alike_events.hpp"

#include <algorithm>

#include "base/guess.hpp"
#include "ctf/decode/string_run.hpp"

namespace leat::ctf {
namespace {

// Of each there is a loop of its own.
enum class Shape : std::uint8_t {
    kOfOneSize,
    kWithOneString,
    kAny,  // several strings, or alignments beyond that of the header
};

Shape shape_of(const AlikeEvents& events) {
    if (events.event.distance == 0 || events.behind_strings.size() > 1) return Shape::kAny;
    return events.behind_strings.empty() ? Shape::kOfOneSize : Shape::kWithOneString;
}

// As end_behind_strings(), but kBeyond also if the string is not short, or the packet ends soon: so it calls nothing,
// and what the loop below works with stays in registers.
[[nodiscard, gnu::always_inline]] inline std::uint64_t end_behind_string(const BitReader& packet,
                                                                         std::uint64_t position, const PlainRun& run) {
    const std::uint64_t begin = aligned(position, 8);
    if (begin + kShortString * 8 > packet.end()) return kBeyond;
    const std::uint64_t size = short_string_size(packet.at(begin));
    return size == 0 ? kBeyond : run.end_after(begin + size * 8);
}

template <Shape kShape>
[[nodiscard, gnu::always_inline]] inline std::uint64_t end_of_event(const AlikeEvents& alike, const BitReader& packet,
                                                                    std::uint64_t header) {
    const DecodePlan::PlainEvent& event = alike.event;
    if constexpr (kShape == Shape::kOfOneSize) return header + event.distance;
    if constexpr (kShape == Shape::kWithOneString)
        return end_behind_string(packet, header + event.distance, alike.behind_strings.front());
    std::uint64_t end = event.first.end_after(alike.context.end_after(header + alike.form.size));
    for (const PlainRun& run : alike.behind_strings) {
        end = end_behind_string(packet, end, run);
        if (end == kBeyond) break;
    }
    return end;
}

// A function of its own, so that no other code takes its registers.
template <Shape kShape>
[[gnu::noinline]] std::size_t locate_all(const AlikeEvents& events, EventCursor& cursor, std::span<EventPlace> places) {
    const AlikeEvents alike = events;  // a copy: what is written to the places cannot change it
    const HeaderForm& form = alike.form;
    const std::uint64_t time_mask = (std::uint64_t{1} << form.time_size) - 1;  // 0: the clock stands still
    const std::uint64_t id_mask = ((std::uint64_t{1} << form.id_size) - 1) << form.id_offset;
    const std::uint64_t id = alike.id << form.id_offset;
    const BitReader packet = cursor.reader;
    std::uint64_t position = packet.position();
    std::uint64_t clock = cursor.clock;
    std::size_t found = 0;
    for (EventPlace& place : places) {
        const std::uint64_t header = aligned(position, form.alignment);
        if (header + 64 > packet.end()) break;
        packet.read_ahead(header);
        const std::uint64_t bits = packet.peek_64_at(header);
        if ((bits & id_mask) != id) break;
        const std::uint64_t next = end_of_event<kShape>(alike, packet, header);
        if (next > packet.end()) break;
        const std::uint64_t cycles = first_with_low_bits(clock, form.time_of(bits), time_mask);
        if (cycles >= alike.clock.count) break;
        ++found;
        place = {.begin = position,
                 .payload = header + form.size,
                 .cycles = cycles,
                 .time_ns = static_cast<std::int64_t>(alike.clock.base + cycles),
                 .event = alike.event.number - 1};
        clock = cycles;
        position = next;
        if constexpr (kShape != Shape::kOfOneSize) {
            // The processor guesses that the next one is as long as this one: so it knows where that ends before it has
            // read it, and already looks at the one behind it.
            const std::uint64_t guess = header + alike.size;
            if (!is_right(guess, next)) break;
            position = guess;
        }
    }
    cursor.reader.seek(position);
    cursor.clock = clock;
    return found;
}

}  // namespace

std::size_t locate_alike_events(const AlikeEvents& alike, EventCursor& cursor, std::span<EventPlace> places) {
    if (alike.fields != 0)
        places = places.first(std::min<std::uint64_t>(places.size(), cursor.fields_left / alike.fields));
    std::size_t found = 0;
    switch (shape_of(alike)) {
        case Shape::kOfOneSize:
            found = locate_all<Shape::kOfOneSize>(alike, cursor, places);
            break;
        case Shape::kWithOneString:
            found = locate_all<Shape::kWithOneString>(alike, cursor, places);
            break;
        case Shape::kAny:
            found = locate_all<Shape::kAny>(alike, cursor, places);
            break;
    }
    cursor.fields_left -= found * alike.fields;
    return found;
}

}  // namespace leat::ctf
