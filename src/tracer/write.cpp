// What write_x86_64.S leaves: records that find no room, or need care; and large payloads.
#include "tracer/write.hpp"

#include <stddef.h>

#include "leat/abi.h"
#include "ring/rseq_writer.hpp"
#include "tracer/careful_record.hpp"
#include "tracer/careful_writer.hpp"
#include "tracer/channel.hpp"
#include "tracer/staging.hpp"
#include "tracer/thread_state.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {
namespace {

using wire::ControlEntry;

// A tracepoint points to the word of its entry, or to its own `off`: then nothing but the word may be read.
const ControlEntry& entry_of(const leat_tracepoint& tracepoint) {
    const uint32_t* const word = __atomic_load_n(&tracepoint.word, __ATOMIC_RELAXED);
    return *reinterpret_cast<const ControlEntry*>(word);  // NOLINT(*-reinterpret-cast)
}

// A record that found no room, of the channel that the thread has ready: counts it, if its ring is full. False: it is
// neither written nor counted yet.
bool is_counted(const ControlEntry& entry, uint64_t size) {
    // A signal handler may have filled it in for another channel since.
    const ThreadChannel& mine = thread_state.channels[0];
    const Channel* const channel = __atomic_load_n(&mine.channel, __ATOMIC_RELAXED);
    const uint32_t word = __atomic_load_n(&entry.word, __ATOMIC_ACQUIRE);
    if (channel == nullptr) return false;
    const auto lane = static_cast<uint32_t>(wire::lane_of(channel->number));
    const uint8_t lane_byte = wire::lane_byte(word, lane);
    const bool is_only_one = word == uint32_t{lane_byte} << (8 * lane) && (lane_byte & wire::kManyActions) == 0;
    if (lane_byte == 0 || !is_only_one) return false;
    return entry.first[lane][wire::list_of(lane_byte)].channel == channel->number &&
           count_if_full(*channel, channel->context_size + size);
}

// What the sequence did not write is looked at anew: all that it looked at may have changed.
bool is_seen_to(const ControlEntry& entry, uint64_t size, ring::WriteOutcome outcome) {
    if (outcome == ring::WriteOutcome::kNoTime) do_not_go_straight();
    return outcome == ring::WriteOutcome::kNoRoom && is_counted(entry, size);
}

}  // namespace
}  // namespace leat::tracer

using namespace leat;
using namespace leat::tracer;

void leat_payload_not_written(const leat_tracepoint* tracepoint, const void* ip, ring::WriteOutcome outcome,
                              const void* payload, size_t size) {
    const ControlEntry& entry = entry_of(*tracepoint);
    if (!is_seen_to(entry, size, outcome)) write_with_care(entry, payload, size, ip);
}

void leat_text_not_written(const leat_tracepoint* tracepoint, const void* ip, ring::WriteOutcome outcome,
                           const ring::TextPayload* payload, size_t least_size) {
    const ControlEntry& entry = entry_of(*tracepoint);
    if (!is_seen_to(entry, least_size, outcome)) write_text_with_care(entry, *payload, ip);
}

void leat_words_not_written(const leat_tracepoint* tracepoint, const void* ip, ring::WriteOutcome outcome,
                            const void* /*unused*/, size_t size, ring::PayloadWords payload) {
    const ControlEntry& entry = entry_of(*tracepoint);
    if (!is_seen_to(entry, size, outcome)) write_words_with_care(entry, payload, size, ip);
}

void leat_text_words_not_written(const leat_tracepoint* tracepoint, const void* ip, ring::WriteOutcome outcome,
                                 const char* text, size_t least_size, size_t head_size, ring::PayloadWords head,
                                 ring::PayloadWords tail) {
    const ControlEntry& entry = entry_of(*tracepoint);
    if (is_seen_to(entry, least_size, outcome)) return;
    // Neither is read beyond its end: write_text_with_care() copies what there is of them.
    const ring::TextPayload payload{text, &head, head_size, &tail, least_size - head_size - 1};
    write_text_with_care(entry, payload, ip);
}

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
