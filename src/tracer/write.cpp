// The fast path: a staged payload becomes an event record in a ring, or is counted.
#include <stddef.h>

#include "leat/abi.h"
#include "ring/rseq_writer.hpp"
#include "tracer/careful_writer.hpp"
#include "tracer/channel.hpp"
#include "tracer/staging.hpp"
#include "tracer/thread_state.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {
namespace {

using wire::Action;
using wire::ControlEntry;

// A tracepoint points to the word of its entry, or to its own `off`: then nothing but the word may be read.
const ControlEntry& entry_of(const leat_tracepoint& tracepoint) {
    const uint32_t* const word = __atomic_load_n(&tracepoint.word, __ATOMIC_RELAXED);
    return *reinterpret_cast<const ControlEntry*>(word);  // NOLINT(*-reinterpret-cast)
}

// The word, from its lowest lane that is on: a byte of that lane, and those of higher lanes. It asks for one record if
// nothing more is in there than that byte, and that has one action only. Nearly always so.
//
//     lane   2  1  0
//     word  00 09 00    -> 00 09: lane 1, list 1
constexpr uint32_t kAsksForMore = ~uint32_t{0xff} | wire::kManyActions;

// The entry's first action of the lane whose byte begins at this bit, by the list that the byte names. By address, as
// the compiler would take the number of lanes for something to divide by.
const Action& first_action(const ControlEntry& entry, uint32_t lane_bit, uint32_t lane_byte) {
    static_assert(sizeof entry.first[0] == 16 && sizeof(Action) == 8);
    const char* const lists = reinterpret_cast<const char*>(&entry.first[0][0]) + 2 * lane_bit;     // NOLINT
    return reinterpret_cast<const Action*>(lists)[wire::list_of(static_cast<uint8_t>(lane_byte))];  // NOLINT
}

// Where an event's only record goes without a further question; no writer: it needs care.
struct Way {
    ring::RecordWriter* writer;
    ring::EventKey event;
};

// The action is read between two looks at the word, of which the sequence takes the second. So it is whole, and still
// asked for.
inline __attribute__((always_inline)) Way straight_way(const ControlEntry& entry, uint32_t word) {
    const uint32_t lane_bit = static_cast<uint32_t>(__builtin_ctz(word)) & ~7U;
    const uint32_t asked = word >> lane_bit;
    if (__builtin_expect((asked & kAsksForMore) != 0, 0)) return {};
    const Action& action = first_action(entry, lane_bit, asked);
    ThreadChannel& mine = thread_state.channels[0];
    if (__builtin_expect(mine.straight_key() != channel_key(action.channel), 0)) return {};
    return {&mine.writer.base, ring::event_key(action.channel, action.event_id)};
}

}  // namespace
}  // namespace leat::tracer

using namespace leat;
using namespace leat::tracer;

void leat_write(const leat_tracepoint* tracepoint, const void* ip, size_t /*hidden*/, void* payload, size_t size) {
    const ControlEntry& entry = entry_of(*tracepoint);
    // P: the action was written before the word. Pairs with O in ControlFile::switch_to(). x86 keeps loads in order.
    const uint32_t word = __atomic_load_n(&entry.word, __ATOMIC_ACQUIRE);
    // A library that is being unloaded takes its word away, and a site may be between its test and here.
    if (word == 0) return;
    if (const Way way = straight_way(entry, word); way.writer != nullptr)
        ring::leat_rseq_write(way.writer, way.event, &entry.word, payload, size, word);
    else
        write_with_care(entry, payload, size, ip);
}

static_assert(sizeof(leat_text_payload) == sizeof(ring::TextPayload) &&
              offsetof(leat_text_payload, tail_size) == offsetof(ring::TextPayload, tail_size));

void leat_write_text(const leat_tracepoint* tracepoint, const void* ip, const leat_text_payload* payload) {
    const ControlEntry& entry = entry_of(*tracepoint);
    // P, as above.
    const uint32_t word = __atomic_load_n(&entry.word, __ATOMIC_ACQUIRE);
    if (word == 0) return;
    const ring::TextPayload& text = *reinterpret_cast<const ring::TextPayload*>(payload);  // NOLINT(*-reinterpret-cast)
    if (const Way way = straight_way(entry, word); way.writer != nullptr)
        ring::leat_rseq_write_text(way.writer, way.event, &entry.word, &text, text.least_size(), word);
    else
        write_text_with_care(entry, text, ip);
}

#if defined(LEAT_HAS_WORDS)
static_assert(sizeof(leat_words) == sizeof(ring::PayloadWords));

void leat_write_words(const leat_tracepoint* tracepoint, const void* ip, leat_words payload, size_t size) {
    const ControlEntry& entry = entry_of(*tracepoint);
    // P, as above.
    const uint32_t word = __atomic_load_n(&entry.word, __ATOMIC_ACQUIRE);
    if (word == 0) return;
    if (const Way way = straight_way(entry, word); way.writer != nullptr)
        ring::leat_rseq_write_words(way.writer, way.event, &entry.word, nullptr, size, word, payload);
    else
        write_words_with_care(entry, payload, size, ip);
}
#endif

void* leat_stage_large(const leat_tracepoint* tracepoint, size_t size) {
    const ControlEntry& entry = entry_of(*tracepoint);
    if (__atomic_load_n(&entry.word, __ATOMIC_ACQUIRE) == 0) return nullptr;
    char* buffer = lend_staging(size);
    if (buffer == nullptr) count_discarded(entry, why_not_lent(size));
    return buffer;
}

void leat_write_large(const leat_tracepoint* tracepoint, const void* ip, size_t /*hidden*/, void* payload,
                      size_t size) {
    const ControlEntry& entry = entry_of(*tracepoint);
    if (__atomic_load_n(&entry.word, __ATOMIC_ACQUIRE) != 0) write_with_care(entry, payload, size, ip);
    return_staging(payload);
}
