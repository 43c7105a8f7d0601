#include "ctf/decode/plain_events.hpp"

#include <cstdint>

#include "ctf/decode/alike_events.hpp"
#include "ctf/decode/string_run.hpp"

namespace leat::ctf {
namespace {

// Nothing of an event can be done before it is known where it begins. So few loads lie between one begin and the next,
// and what each event moves on stays in registers: for that, all of this must become one function.
class PlainEvents {
  public:
    using Event = DecodePlan::PlainEvent;

    PlainEvents(const DecodePlan& plan, const Clock* clock, const EventCursor& cursor)
        : form_(plan.header_form),
          time_mask_((std::uint64_t{1} << form_.time_size) - 1),
          context_(plan.context_layout.plain->first),
          context_count_(plan.context_layout.plain->count),
          events_(plan.plain_by_small_id),
          runs_(plan.runs_behind_strings),
          clock_(clock != nullptr ? *clock : Clock()),
          packet_(cursor.reader),
          position_(cursor.reader.position()),
          time_(cursor.clock),
          fields_left_(cursor.fields_left) {}

    [[gnu::always_inline]] std::size_t locate(std::span<EventPlace> places) {
        std::size_t found = 0;
        std::uint64_t id_before = 0;
        std::uint64_t size_before = 0;
        unsigned alike = 0;
        while (found < places.size() && peek()) {
            const std::uint64_t id = form_.id_of(bits_);
            if (id >= events_.size() || events_[id].number == 0) break;
            const Event& event = events_[id];
            if (!locate_one(event, end_of(event), places[found])) break;
            ++found;
            const std::uint64_t size = position_ - header_;
            alike = id == id_before && size == size_before ? alike + 1 : 0;
            id_before = id;
            size_before = size;
            if (alike < kManyAlike) continue;
            found += locate_alike(event, id, size, places.subspan(found));
            alike = 0;
        }
        return found;
    }

    // Where the packet goes on after `found` events.
    [[nodiscard]] EventCursor cursor_after(std::size_t found, const EventCursor& before) const {
        EventCursor cursor = before;
        cursor.reader.seek(position_);
        cursor.clock = time_;
        cursor.has_clock = cursor.has_clock || (found != 0 && form_.time_size != 0);
        cursor.fields_left = fields_left_;
        return cursor;
    }

  private:
    static constexpr unsigned kManyAlike = 8;

    // Where many were alike, there are more of them.
    [[gnu::always_inline]] std::size_t locate_alike(const Event& event, std::uint64_t id, std::uint64_t size,
                                                    std::span<EventPlace> places) {
        const AlikeEvents alike{.form = form_,
                                .event = event,
                                .context = context_,
                                .behind_strings = runs_behind_strings(event),
                                .id = id,
                                .fields = context_count_ + event.count,
                                .size = size,
                                .clock = clock_.simple()};
        EventCursor cursor{.reader = packet_, .clock = time_, .fields_left = fields_left_};
        cursor.reader.seek(position_);
        const std::size_t found = locate_alike_events(alike, cursor, places);
        position_ = cursor.reader.position();
        time_ = cursor.clock;
        fields_left_ = cursor.fields_left;
        return found;
    }

    // Reads the next header, if there can be one.
    [[gnu::always_inline]] bool peek() {
        header_ = aligned(position_, form_.alignment);
        if (header_ + 64 > packet_.end()) return false;
        packet_.read_ahead(header_);
        bits_ = packet_.peek_64_at(header_);
        return true;
    }

    // Where the event ends whose header was read; kBeyond: a string does not end in the packet.
    [[nodiscard, gnu::always_inline]] std::uint64_t end_of(const Event& event) const {
        const std::uint64_t end = event.distance != 0 ? header_ + event.distance
                                                      : event.first.end_after(context_.end_after(header_ + form_.size));
        if (event.string_count == 0) return end;
        return end_behind_strings(packet_, end, runs_behind_strings(event));
    }

    [[gnu::always_inline]] bool locate_one(const Event& event, std::uint64_t end, EventPlace& place) {
        const std::uint64_t fields = context_count_ + event.count;
        if (end > packet_.end() || fields > fields_left_) return false;
        const std::uint64_t time = first_with_low_bits(time_, form_.time_of(bits_), time_mask_);
        if (!clock_.convert(time, place.time_ns)) return false;
        place.begin = position_;
        place.payload = header_ + form_.size;
        place.cycles = time;
        place.event = event.number - 1;
        time_ = time;
        fields_left_ -= fields;
        position_ = end;
        return true;
    }

    [[nodiscard, gnu::always_inline]] std::span<const PlainRun> runs_behind_strings(const Event& event) const {
        return runs_.subspan(event.first_behind_string, event.string_count);
    }

    const HeaderForm form_;
    const std::uint64_t time_mask_;  // 0: headers have no time, and the clock stands still
    const PlainRun context_;
    const std::uint64_t context_count_;
    const std::span<const Event> events_;  // by id
    const std::span<const PlainRun> runs_;
    const Clock clock_;  // if the stream has none, any
    const BitReader packet_;
    std::uint64_t position_;
    std::uint64_t time_;  // of the event before
    std::uint64_t fields_left_;
    std::uint64_t header_ = 0;  // where the next one begins
    std::uint64_t bits_ = 0;    // its first 64
};

}  // namespace

std::size_t locate_plain_events(const DecodePlan& plan, const Clock* clock, EventCursor& cursor,
                                std::span<EventPlace> places) {
    const std::optional<PlainLayout>& context = plan.context_layout.plain;
    if (!plan.header_form.is_known || !context || !context->behind_strings.empty()) return 0;
    PlainEvents events(plan, clock, cursor);
    const std::size_t found = events.locate(places);
    cursor = events.cursor_after(found, cursor);
    if (clock != nullptr) return found;
    for (EventPlace& place : places.first(found)) {
        place.cycles = 0;
        place.time_ns = 0;
    }
    return found;
}

}  // namespace leat::ctf
