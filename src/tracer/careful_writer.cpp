#include "tracer/careful_writer.hpp"

#include <stddef.h>
#include <string.h>

#include "leat/abi.h"
#include "tracer/capture_link.hpp"
#include "tracer/careful_record.hpp"
#include "tracer/channel.hpp"
#include "tracer/channel_fetch.hpp"
#include "tracer/control_memory.hpp"
#include "tracer/staging.hpp"
#include "tracer/thread_state.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using ring::WriteOutcome;
using wire::Action;
using wire::ControlEntry;

// An event is given up if its tracepoint is switched this often while it is being written.
constexpr int kMaxLooks = 1000;

// What a site hands over.
struct Event {
    const ControlEntry& entry;
    const void* payload;
    uint64_t size;
    const void* ip;
};

// The actions of a list. They are read where they lie, which may change at any time: the word tells afterwards whether
// it has.
class Actions {
  public:
    Actions(const ControlEntry& entry, uint32_t lane, uint8_t lane_byte) {
        const uint32_t list = wire::list_of(lane_byte);
        first_ = &entry.first[lane][list];
        if ((lane_byte & wire::kManyActions) == 0) return;
        const ControlPlace place = find_place(entry);
        if (place.memory == nullptr) return;
        const char* const lists = place.memory->file + place.memory->layout().more_actions(place.index);
        more_ = reinterpret_cast<const wire::MoreActions*>(lists)->lists[lane][list];  // NOLINT(*-reinterpret-cast)
        // Read once: nobody makes the list longer than it is allowed to be.
        const uint32_t said = __atomic_load_n(&entry.more[lane][list], __ATOMIC_RELAXED);
        count_ += said < wire::kMaxActions ? said : wire::kMaxActions - 1;
    }

    [[nodiscard]] uint32_t count() const { return count_; }
    [[nodiscard]] Action at(uint32_t index) const { return index == 0 ? *first_ : more_[index - 1]; }

  private:
    const Action* first_;
    const Action* more_ = nullptr;
    uint32_t count_ = 1;
};

// The daemon hears of it through the control memory: there is no ring to count in.
void count_not_attached(const ControlEntry& entry, uint32_t lane) {
    const ControlPlace place = find_place(entry);
    if (place.memory != nullptr) __atomic_add_fetch(&place.memory->header().not_attached[lane], 1, __ATOMIC_RELAXED);
}

// By the sequence, as an event that goes to one channel alone, if the thread has the channel ready.
WriteOutcome write_straight(const Event& event, const Action& action, uint32_t word) {
    constexpr WriteOutcome kWithCare = WriteOutcome::kNoRoom;
    if (event.payload == nullptr || event.size > LEAT_STAGE_SMALL) return kWithCare;
    const uint64_t key = channel_key(action.channel);
    for (ThreadChannel& mine : thread_state.channels) {
        if (mine.straight_key() != key) continue;
        return ring::leat_rseq_write(&mine.writer.base, ring::event_key(action.channel, action.event_id),
                                     &event.entry.word, event.payload, event.size, word);
    }
    return kWithCare;
}

// False: somebody has switched the tracepoint meanwhile.
bool write_action(const Event& event, uint32_t lane, const Action& action, uint32_t word) {
    if (write_straight(event, action, word) == WriteOutcome::kWritten) return true;
    const Channel* channel = find_channel(action.channel);
    // What is no channel now may have been one when the word was read.
    const auto is_switched = [&] { return __atomic_load_n(&event.entry.word, __ATOMIC_ACQUIRE) != word; };
    if (channel == nullptr && is_switched()) return false;
    // There may be no rings, and the daemon says so.
    const bool has_rings = action.event_id != wire::kNotEnabled;
    if (channel == nullptr && has_rings) channel = fetch_channel(static_cast<wire::Lane>(lane), action.channel);
    if (channel != nullptr) {
        return write_record({*channel, action.event_id, &event.entry.word, word, event.payload, event.size, event.ip});
    }
    if (is_switched()) return false;
    count_not_attached(event.entry, lane);
    return true;
}

// Channels that have had the event.
class Served {
  public:
    // Of the first `count` that were added.
    [[nodiscard]] bool has(uint32_t channel, uint32_t count) const {
        for (uint32_t i = 0; i < count; ++i)
            if (channels_[i] == channel) return true;
        return count_ == wire::kMaxActions;
    }
    void add(uint32_t channel) { channels_[count_++] = channel; }
    [[nodiscard]] uint32_t count() const { return count_; }

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
        // P, as in write_x86_64.S.
        const uint32_t word = __atomic_load_n(&event.entry.word, __ATOMIC_ACQUIRE);
        const uint8_t lane_byte = wire::lane_byte(word, lane);
        // Each turn asks: the program may have forked in the one before. No event of a child goes straight to a ring
        // before one has come here.
        if (lane_byte == 0 || is_captured_elsewhere(lane)) return;
        const Actions actions(event.entry, lane, lane_byte);
        const uint32_t served_before = served.count();
        bool is_changed = false;
        for (uint32_t i = 0; i < actions.count() && !is_changed; ++i) {
            const Action action = actions.at(i);
            if (served.has(action.channel, served_before)) continue;
            is_changed = !write_action(event, lane, action, word);
            if (!is_changed) served.add(action.channel);
        }
        if (!is_changed) return;
    }
    count_not_attached(event.entry, lane);
}

}  // namespace

void write_with_care(const ControlEntry& entry, const void* payload, uint64_t size, const void* ip) {
    const Event event{entry, payload, size, ip};
    const uint32_t word = __atomic_load_n(&entry.word, __ATOMIC_RELAXED);
    for (uint32_t lane = 0; lane < wire::kLanes; ++lane)
        if (wire::lane_byte(word, lane) != 0) write_lane(event, lane);
}

void count_discarded(const ControlEntry& entry, DiscardReason reason) {
    const uint32_t word = __atomic_load_n(&entry.word, __ATOMIC_ACQUIRE);
    for (uint32_t lane = 0; lane < wire::kLanes; ++lane) {
        if (wire::lane_byte(word, lane) == 0 || is_captured_elsewhere(lane)) continue;
        const Actions actions(entry, lane, wire::lane_byte(word, lane));
        for (uint32_t i = 0; i < actions.count(); ++i) {
            const Channel* channel = find_channel(actions.at(i).channel);
            if (channel == nullptr)
                count_not_attached(entry, lane);
            else
                count_in(*channel, reason);
        }
    }
}

// Not inlined: the stage would make the frames of its callers large.
__attribute__((noinline)) void write_text_with_care(const ControlEntry& entry, const ring::TextPayload& payload,
                                                    const void* ip) {
    const uint64_t length = strlen(payload.chars);
    const uint64_t size = payload.least_size() + length;
    char small[LEAT_STAGE_SMALL + LEAT_STAGE_SLACK];
    char* const staged = size <= LEAT_STAGE_SMALL ? small : lend_staging(size);
    if (staged == nullptr) return count_discarded(entry, why_not_lent(size));
    memcpy(staged, payload.head, payload.head_size);
    char* const text = staged + payload.head_size;
    memcpy(text, payload.chars, length);
    text[length] = '\0';
    // Another thread may have shortened it since it was measured.
    if (char* const end = static_cast<char*>(memchr(text, 0, length)); end != nullptr)
        memset(end, '#', static_cast<size_t>(text + length - end));
    memcpy(text + length + 1, payload.tail, payload.tail_size);
    write_with_care(entry, staged, size, ip);
    if (staged != small) return_staging(staged);
}

void write_words_with_care(const ControlEntry& entry, ring::PayloadWords payload, uint64_t size, const void* ip) {
    char staged[sizeof payload + ring::kCopySlack];
    memcpy(staged, &payload, sizeof payload);
    write_with_care(entry, staged, size, ip);
}

}  // namespace leat::tracer
