#include "ctf/decode/plain_events.hpp"

#include <cstdint>

#include "base/guess.hpp"
#include "ctf/record/string_size.hpp"

namespace leat::ctf {
namespace {

constexpr std::uint64_t kBeyond = ~std::uint64_t{0};  // any packet's end

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
          clock_(clock),
          cursor_(cursor),
          position_(cursor.reader.position()) {}

    [[gnu::always_inline]] std::size_t locate(std::span<EventPlace> places) {
        std::size_t found = 0;
        std::uint64_t id_before = 0;
        std::uint64_t size_before = 0;
        unsigned alike = 0;
        while (found < places.size() && peek()) {
            const std::uint64_t id = form_.id_of(bits_);
            if (id >= events_.size() || events_[id].number == 0) break;
            if (!locate_one(events_[id], places[found])) break;
            ++found;
            const std::uint64_t size = position_ - header_;
            alike = id == id_before && size == size_before ? alike + 1 : 0;
            id_before = id;
            size_before = size;
            if (alike < kManyAlike) continue;
            found += locate_alike(id, size, places.subspan(found));
            alike = 0;
        }
        return found;
    }

    // Where the packet goes on after the events that were found.
    [[nodiscard]] EventCursor cursor() const {
        EventCursor cursor = cursor_;
        cursor.reader.seek(position_);
        return cursor;
    }

  private:
    static constexpr unsigned kManyAlike = 8;
    static constexpr std::size_t kReadAhead = 2048;  // bytes. By itself, the processor does not read across pages

    // After many events of one kind and size, it guesses that the next one is like them: so the processor knows where
    // that ends before it has read it, and already looks at the one behind it.
    [[gnu::always_inline]] std::size_t locate_alike(std::uint64_t id, std::uint64_t size,
                                                    std::span<EventPlace> places) {
        const Event event = events_[id];
        std::size_t found = 0;
        while (found < places.size() && peek() && form_.id_of(bits_) == id && locate_one(event, places[found])) {
            ++found;
            const std::uint64_t guess = header_ + size;
            if (!is_right(guess, position_)) break;
            position_ = guess;
        }
        return found;
    }

    // Reads the next header, if there can be one.
    [[gnu::always_inline]] bool peek() {
        header_ = aligned(position_, form_.alignment);
        if (header_ + 64 > cursor_.reader.end()) return false;
        __builtin_prefetch(cursor_.reader.at(header_) + kReadAhead);
        bits_ = cursor_.reader.peek_64_at(header_);
        return true;
    }

    [[gnu::always_inline]] bool locate_one(const Event& event, EventPlace& place) {
        const std::uint64_t payload = header_ + form_.size;
        std::uint64_t next =
            event.distance != 0 ? header_ + event.distance : event.first.end_after(context_.end_after(payload));
        if (event.string_count != 0)
            next = behind_strings(next, runs_.subspan(event.first_behind_string, event.string_count));
        const std::uint64_t fields = context_count_ + event.count;
        if (next > cursor_.reader.end() || fields > cursor_.fields_left) return false;
        const std::uint64_t clock = first_with_low_bits(cursor_.clock, form_.time_of(bits_), time_mask_);
        place.begin = position_;
        place.payload = payload;
        place.cycles = clock_ != nullptr ? clock : 0;
        place.event = event.number - 1;
        if (clock_ != nullptr && !clock_->convert(clock, place.time_ns)) return false;
        cursor_.clock = clock;
        cursor_.has_clock = cursor_.has_clock || form_.time_size != 0;
        cursor_.fields_left -= fields;
        position_ = next;
        return true;
    }

    // Where the last of these runs ends; kBeyond: a string does not end in the packet.
    [[nodiscard, gnu::always_inline]] std::uint64_t behind_strings(std::uint64_t position,
                                                                   std::span<const PlainRun> runs) const {
        const BitReader& packet = cursor_.reader;
        for (const PlainRun& run : runs) {
            const std::uint64_t begin = aligned(position, 8);
            if (begin > packet.end()) return kBeyond;
            const std::uint64_t size = string_size(packet.at(begin), (packet.end() - begin) / 8);
            if (size == 0) return kBeyond;
            position = run.end_after(begin + size * 8);
        }
        return position;
    }

    const HeaderForm form_;
    const std::uint64_t time_mask_;  // 0: headers have no time, and the clock stands still
    const PlainRun context_;
    const std::uint64_t context_count_;
    const std::span<const Event> events_;  // by id
    const std::span<const PlainRun> runs_;
    const Clock* const clock_;
    EventCursor cursor_;
    std::uint64_t position_;
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
    cursor = events.cursor();
    return found;
}

}  // namespace leat::ctf
