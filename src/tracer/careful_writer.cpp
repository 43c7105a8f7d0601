#include "tracer/careful_writer.hpp"

#include <stddef.h>
#include <string.h>

#include "tracer/careful_record.hpp"
#include "tracer/channel.hpp"
#include "tracer/control_memory.hpp"
#include "tracer/thread_state.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using ring::WriteOutcome;
using wire::Action;
using wire::ControlEntry;

// An event is given up if its tracepoint is switched this often while it is being written.
constexpr int kMaxLooks = 100;

// What a site hands over.
struct Event {
    const ControlEntry& entry;
    const void* payload;
    uint64_t size;
    const void* ip;
};

// Copies the actions of a list, which may change at any time: the word tells afterwards whether it has.
uint32_t read_actions(const ControlEntry& entry, uint32_t lane, uint8_t lane_byte, Action* actions) {
    const uint32_t list = wire::list_of(lane_byte);
    actions[0] = entry.first[lane][list];
    if ((lane_byte & wire::kManyActions) == 0) return 1;
    const ControlPlace place = find_place(entry);
    if (place.memory == nullptr) return 1;
    // Read once: what is compared is what is copied, whatever others write there meanwhile.
    const uint32_t said = __atomic_load_n(&entry.more[lane][list], __ATOMIC_RELAXED);
    const uint32_t more = said < wire::kMaxActions ? said : wire::kMaxActions - 1;
    const char* const lists = place.memory->file + place.memory->layout().more_actions(place.index);
    const auto& rest = *reinterpret_cast<const wire::MoreActions*>(lists);  // NOLINT(*-reinterpret-cast)
    memcpy(actions + 1, rest.lists[lane][list], more * sizeof(Action));
    return 1 + more;
}

// The daemon hears of it through the control memory: there is no ring to count in.
void count_not_attached(const ControlEntry& entry, uint32_t lane) {
    const ControlPlace place = find_place(entry);
    if (place.memory != nullptr) __atomic_add_fetch(&place.memory->header().not_attached[lane], 1, __ATOMIC_RELAXED);
}

// False: somebody has switched the tracepoint meanwhile.
bool write_action(const Event& event, uint32_t lane, const Action& action, uint32_t word) {
    const Channel* channel = find_channel(action.channel);
    if (channel != nullptr) {
        return write_record({*channel, action.event_id, &event.entry.word, word, event.payload, event.size, event.ip});
    }
    // What is no channel now may have been one when the word was read.
    if (__atomic_load_n(&event.entry.word, __ATOMIC_ACQUIRE) != word) return false;
    count_not_attached(event.entry, lane);
    return true;
}

// Channels that have had the event.
class Served {
  public:
    [[nodiscard]] bool has(uint32_t channel) const {
        for (uint32_t i = 0; i < count_; ++i)
            if (channels_[i] == channel) return true;
        return count_ == wire::kMaxActions;
    }
    void add(uint32_t channel) { channels_[count_++] = channel; }

  private:
    uint32_t channels_[wire::kMaxActions];
    uint32_t count_ = 0;
};

// If the daemon changes the list while we go through it, those that the event has not gone to yet get it by the new
// list:
//
//     list     A B          A B C
//     event      A, word changed:   B C
void write_lane(const Event& event, uint32_t lane) {
    Served served;
    for (int turn = 0; turn < kMaxLooks; ++turn) {
        // P, as in leat_write().
        const uint32_t word = __atomic_load_n(&event.entry.word, __ATOMIC_ACQUIRE);
        const uint8_t lane_byte = wire::lane_byte(word, lane);
        if (lane_byte == 0) return;
        Action actions[wire::kMaxActions];
        const uint32_t count = read_actions(event.entry, lane, lane_byte, actions);
        bool is_changed = false;
        for (uint32_t i = 0; i < count && !is_changed; ++i) {
            if (served.has(actions[i].channel)) continue;
            is_changed = !write_action(event, lane, actions[i], word);
            if (!is_changed) served.add(actions[i].channel);
        }
        if (!is_changed) return;
    }
}

}  // namespace

void write_with_care(const ControlEntry& entry, const void* payload, uint64_t size, const void* ip) {
    const Event event{entry, payload, size, ip};
    for (uint32_t lane = 0; lane < wire::kLanes; ++lane) write_lane(event, lane);
}

void count_discarded(const ControlEntry& entry, DiscardReason reason) {
    const uint32_t word = __atomic_load_n(&entry.word, __ATOMIC_ACQUIRE);
    for (uint32_t lane = 0; lane < wire::kLanes; ++lane) {
        if (wire::lane_byte(word, lane) == 0) continue;
        Action actions[wire::kMaxActions];
        const uint32_t count = read_actions(entry, lane, wire::lane_byte(word, lane), actions);
        for (uint32_t i = 0; i < count; ++i) {
            const Channel* channel = find_channel(actions[i].channel);
            if (channel == nullptr)
                count_not_attached(entry, lane);
            else
                count_in(*channel, reason);
        }
    }
}

void not_written(const ring::RecordWriter* writer, ring::EventKey event, const uint32_t* word, const void* payload,
                 uint64_t size, WriteOutcome outcome) {
    // The writer of a thread: nobody else has this function.
    static_assert(offsetof(ThreadChannel, writer) == 0);
    const auto& mine = *reinterpret_cast<const ThreadChannel*>(writer);  // NOLINT(*-reinterpret-cast)
    const auto& entry = *reinterpret_cast<const ControlEntry*>(word);    // NOLINT(*-reinterpret-cast)
    // A signal handler may have filled it in for another channel since.
    const Channel& channel = *__atomic_load_n(&mine.channel, __ATOMIC_RELAXED);
    if (outcome == WriteOutcome::kNoRoom && channel.number == ring::channel_of(event) &&
        count_if_full(channel, channel.context_size + size))
        return;
    if (outcome == WriteOutcome::kNoTime) do_not_go_straight();
    // Looks at everything anew. Where the tracepoint has just been switched to a channel whose records say where the
    // site is, nobody has kept that. Our caller has left its place to us: so this is in the function that emits.
    write_with_care(entry, payload, size, __builtin_return_address(0));
}

}  // namespace leat::tracer
