// The fast path: a staged payload becomes an event record in a ring, or is counted.
#include <stddef.h>
#include <string.h>

#include "leat/abi.h"
#include "ring/rseq_writer.hpp"
#include "tracer/careful_writer.hpp"
#include "tracer/channel.hpp"
#include "tracer/process_page.hpp"
#include "tracer/thread_state.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using ring::WriteOutcome;

// The sequence has the addresses of a tracepoint's and a binding's first members.
static_assert(offsetof(leat_tracepoint, enabled) == 0 && offsetof(Binding, header) == 0);

// What the sequence did not write. Its contexts are put there anew.
void not_written(const ring::RingMap* /*map*/, const ring::EventHeader* header, const uint32_t* enabled,
                 const void* record, uint64_t size, WriteOutcome outcome) {
    const auto& tracepoint = *reinterpret_cast<const leat_tracepoint*>(enabled);  // NOLINT(*-reinterpret-cast)
    const auto& binding = *reinterpret_cast<const Binding*>(header);              // NOLINT(*-reinterpret-cast)
    if (outcome == WriteOutcome::kDisabled) return;
    if (outcome == WriteOutcome::kNoRoom && count_if_full(*binding.channel, size)) return;
    if (outcome == WriteOutcome::kNoTime) thread_state.straight_to = nullptr;
    const uint32_t contexts = thread_state.contexts.size;
    char* const payload = const_cast<char*>(static_cast<const char*>(record)) + contexts;  // NOLINT(*-const-cast)
    write_with_care(tracepoint, binding, {payload, size - contexts});
}

// In a new child the process has no generation yet, and the thread still its parent's. Relaxed: where another thread
// has begun a new generation (somebody has a new name), this one may notice an event later.
inline bool goes_straight(const Channel& channel) {
    const ThreadState& thread = thread_state;
    return thread.straight_to == &channel &&
           thread.generation == __atomic_load_n(&process_page->generation, __ATOMIC_RELAXED);
}

// The contexts go in front of the payload as one block of constant size, whatever their number:
//
//     LEAT_STAGE_HEADROOM                                    LEAT_STAGE_SLACK
//      | ...  | kContextBlockSize: (unused) contexts | payload | ...
//                                           | the record        |
//
// So the move does not depend on their number, and the parts of the record lie side by side for the ring's one copy.
inline void write_straight(const leat_tracepoint& tracepoint, const Binding& binding, char* payload, uint64_t size) {
    const ContextBlock& contexts = thread_state.contexts;
    if (contexts.size != 0) memcpy(payload - kContextBlockSize, contexts.bytes, kContextBlockSize);
    ring::leat_rseq_write_or(&binding.channel->map, &binding.header, &tracepoint.enabled, payload - contexts.size,
                             size + contexts.size, not_written);
}

// For payloads that are too large for a stack. Never waits: a signal handler may have interrupted every borrower.
char* lend_staging(const Channel& channel) {
    for (uint32_t i = 0; i < kStagingBuffers; ++i) {
        // R: whoever had the buffer has read it to the end. Pairs with Q in leat_write_large().
        if (__atomic_exchange_n(&process_page->staging_is_lent[i], 1, __ATOMIC_ACQUIRE) == 0)
            return channel.staging + i * channel.staging_size;
    }
    return nullptr;
}

bool is_too_large(const Channel& channel, size_t size) {
    return size > ring::max_record_size(channel.map.size()) - wire::kMaxContextSize;
}

}  // namespace
}  // namespace leat::tracer

using namespace leat::tracer;

void leat_write(leat_tracepoint* tracepoint, void* payload, size_t size) {
    // N: the binding's block is whole. Pairs with M in module.cpp's collect(). A library that is being unloaded takes
    // it away, and a site may be between its test and here: then there is nothing to write.
    const auto* binding = static_cast<const Binding*>(__atomic_load_n(&tracepoint->binding, __ATOMIC_ACQUIRE));
    if (binding == nullptr || binding->channel == nullptr) return;
    if (__builtin_expect(!goes_straight(*binding->channel), 0))
        return write_with_care(*tracepoint, *binding, {static_cast<char*>(payload), size});
    write_straight(*tracepoint, *binding, static_cast<char*>(payload), size);
}

void* leat_stage_large(leat_tracepoint* tracepoint, size_t size) {
    const auto* binding = static_cast<const Binding*>(__atomic_load_n(&tracepoint->binding, __ATOMIC_ACQUIRE));
    if (binding == nullptr || binding->channel == nullptr) return nullptr;
    const Channel& channel = *binding->channel;
    if (is_too_large(channel, size)) {
        count_discarded(channel, DiscardReason::kTooLarge);
        return nullptr;
    }
    char* buffer = lend_staging(channel);
    if (buffer == nullptr) count_discarded(channel, DiscardReason::kInterrupted);
    return buffer == nullptr ? nullptr : buffer + LEAT_STAGE_HEADROOM;
}

void leat_write_large(leat_tracepoint* tracepoint, void* payload, size_t size) {
    const auto* binding = static_cast<const Binding*>(__atomic_load_n(&tracepoint->binding, __ATOMIC_ACQUIRE));
    if (binding != nullptr && binding->channel != nullptr)
        write_with_care(*tracepoint, *binding, {static_cast<char*>(payload), size});
    // The buffer's place tells its number: the site gives back what leat_stage_large() gave it.
    const auto index =
        static_cast<uint64_t>(static_cast<char*>(payload) - process_channel.staging) / process_channel.staging_size;
    // Q: the record is in the ring before another thread may stage its own here. Pairs with R in lend_staging().
    __atomic_store_n(&process_page->staging_is_lent[index], 0, __ATOMIC_RELEASE);
}
