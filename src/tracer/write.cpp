// The fast path: a staged payload becomes an event record in a ring, or is counted.
#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "leat/abi.h"
#include "ring/thread_writer.hpp"
#include "tracer/channel.hpp"
#include "tracer/process_page.hpp"
#include "tracer/ring_owner.hpp"
#include "tracer/thread_state.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using ring::RingHeader;
using ring::WriteOutcome;

constexpr int kMaxTurns = 100;

static_assert(kContextBlockSize <= LEAT_STAGE_HEADROOM && LEAT_STAGE_SLACK >= ring::kCopySlack);
static_assert(LEAT_STAGE_SMALL + wire::kMaxContextSize <= ring::max_record_size(ring::kMinRingSize));

// The ring that counts what this thread discards. Any ring will do: the counters are atomic.
RingHeader& counting_ring(const Channel& channel) {
    if (!channel.has_rseq) return thread_state.ring != nullptr ? *thread_state.ring : *channel.map.ring(0);
    const char* rseq = static_cast<const char*>(__builtin_thread_pointer()) + channel.map.rseq_offset;
    uint32_t cpu = 0;
    memcpy(&cpu, rseq + 4, sizeof cpu);
    return *channel.map.ring(cpu < channel.map.cpu_ring_count ? cpu : 0);
}

__attribute__((noinline)) void count_discarded(const Channel& channel, DiscardReason reason) {
    __atomic_add_fetch(&counting_ring(channel).discarded[static_cast<uint32_t>(reason)], 1, __ATOMIC_RELAXED);
}

void ring_doorbell(const Channel& channel) {
    const int saved_errno = errno;
    __atomic_add_fetch(channel.doorbell, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, channel.doorbell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    errno = saved_errno;
}

struct Room {
    bool is_there;    // write again
    bool is_awaited;  // limit was the consumer's wish to be woken; it is taken down
};

// The writer met `limit`.
Room make_room(const Channel& channel, RingHeader& ring, uint64_t record_size) {
    const uint64_t end = __atomic_load_n(&ring.tail, __ATOMIC_ACQUIRE) + channel.map.size();
    // A store too old is harmless: a limit below the true one only brings a writer here again.
    const uint64_t limit = __atomic_exchange_n(&ring.limit, end, __ATOMIC_RELAXED);
    const uint64_t head = __atomic_load_n(&ring.head, __ATOMIC_RELAXED);
    return {head + ring::kMaxHeaderSize + record_size + ring::kCopySlack <= end, limit != end};
}

struct Record {
    const char* bytes;
    uint64_t size;
};

// Puts the contexts in front of the payload, as one block of constant size, whatever their number.
inline Record with_contexts(char* payload, uint64_t size) {
    const ThreadState& thread = thread_state;
    if (thread.context_size != 0) memcpy(payload - kContextBlockSize, thread.context_block, kContextBlockSize);
    return {payload - thread.context_size, size + thread.context_size};
}

// Without a system time, which few need: kNoTime asks for it.
inline WriteOutcome write_to_cpu_ring(const leat_tracepoint& tracepoint, const Binding& binding, Record record,
                                      uint64_t system_time = 0) {
    return ring::leat_rseq_write(&binding.channel->map, &binding.header, &tracepoint.enabled, record.bytes, record.size,
                                 system_time);
}

WriteOutcome write_to_own_ring(const Binding& binding, Record record) {
    ThreadState& thread = thread_state;
    if (thread.ring == nullptr) thread.ring = claim_ring(*binding.channel);
    if (thread.ring == nullptr) return WriteOutcome::kNoRing;
    return ring::thread_write(binding.channel->map, *thread.ring, binding.header, record.bytes, record.size);
}

// A signal handler that interrupts the writer of a thread-owned ring must not write there.
class WritingFlag {
  public:
    WritingFlag() : was_set_(thread_state.is_writing != 0) {
        thread_state.is_writing = 1;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    }
    ~WritingFlag() {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (!was_set_) thread_state.is_writing = 0;
    }
    WritingFlag(const WritingFlag&) = delete;
    WritingFlag& operator=(const WritingFlag&) = delete;
    [[nodiscard]] bool was_set() const { return was_set_; }

  private:
    bool was_set_;
};

WriteOutcome write_again(const leat_tracepoint& tracepoint, const Binding& binding, Record record) {
    if (!binding.channel->has_rseq) return write_to_own_ring(binding, record);
    return write_to_cpu_ring(tracepoint, binding, record, ring::system_now());
}

// Everything but the common case, which left with `outcome`.
__attribute__((noinline, cold)) void write_slowly(const leat_tracepoint& tracepoint, const Binding& binding,
                                                  Record record, WriteOutcome outcome) {
    const Channel& channel = *binding.channel;
    if (outcome == WriteOutcome::kNoTime) outcome = write_again(tracepoint, binding, record);
    bool is_awaited = false;
    // Each turn that finds room again has met a new wish to be woken, from a consumer that came in between.
    for (int turn = 0; turn < kMaxTurns && outcome == WriteOutcome::kNoRoom; ++turn) {
        const Room room = make_room(channel, counting_ring(channel), record.size);
        is_awaited = is_awaited || room.is_awaited;
        if (!room.is_there) break;
        outcome = write_again(tracepoint, binding, record);
    }
    if (outcome == WriteOutcome::kNoRoom) count_discarded(channel, DiscardReason::kRingFull);
    if (outcome == WriteOutcome::kNoRing) count_discarded(channel, DiscardReason::kNoRing);
    // Behind the record: a consumer woken before it is there would find nothing, and ask again, in our way.
    // A writer that is killed between taking the wish down and this rings never: hosts also drain now and then.
    if (is_awaited) ring_doorbell(channel);
}

bool is_prepared(const Channel& channel) {
    const ThreadState& thread = thread_state;
    return thread.generation == __atomic_load_n(&process_page->generation, __ATOMIC_RELAXED) &&
           thread.generation != 0 && thread.context_mask == channel.contexts;
}

// The sequence has the addresses of a tracepoint's and a binding's first members.
static_assert(offsetof(leat_tracepoint, enabled) == 0 && offsetof(Binding, header) == 0);

void not_written(const ring::RingMap* /*map*/, const ring::EventHeader* header, const uint32_t* enabled,
                 const void* record, uint64_t size, WriteOutcome outcome) {
    const auto& tracepoint = *reinterpret_cast<const leat_tracepoint*>(enabled);  // NOLINT(*-reinterpret-cast)
    const auto& binding = *reinterpret_cast<const Binding*>(header);              // NOLINT(*-reinterpret-cast)
    write_slowly(tracepoint, binding, {static_cast<const char*>(record), size}, outcome);
}

// The first event of a thread or after a fork, a thread that is lent to a vfork child, a thread without rseq, or a
// large record.
__attribute__((noinline)) void write_with_care(const leat_tracepoint& tracepoint, const Binding& binding, char* payload,
                                               uint64_t size) {
    const Channel& channel = *binding.channel;
    if (thread_state.is_borrowed != 0) return count_discarded(channel, DiscardReason::kBorrowed);
    if (!is_prepared(channel)) refresh_thread_state(channel);
    const Record record = with_contexts(payload, size);
    if (record.size > ring::max_record_size(channel.map.size()))
        return count_discarded(channel, DiscardReason::kTooLarge);
    if (channel.has_rseq) {
        const WriteOutcome outcome = write_to_cpu_ring(tracepoint, binding, record);
        if (outcome != WriteOutcome::kWritten) write_slowly(tracepoint, binding, record, outcome);
        return;
    }
    const WritingFlag flag;
    if (flag.was_set()) return count_discarded(channel, DiscardReason::kInterrupted);
    const WriteOutcome outcome = write_to_own_ring(binding, record);
    if (outcome != WriteOutcome::kWritten) write_slowly(tracepoint, binding, record, outcome);
}

// In a new child the process has no generation yet, and the thread still its parent's.
inline bool goes_straight(const Channel& channel) {
    const ThreadState& thread = thread_state;
    return thread.straight_to == &channel &&
           thread.generation == __atomic_load_n(&process_page->generation, __ATOMIC_RELAXED);
}

char* lend_staging(const Channel& channel) {
    for (uint32_t i = 0; i < kStagingBuffers; ++i) {
        if (__atomic_exchange_n(&process_page->staging_is_lent[i], 1, __ATOMIC_ACQUIRE) == 0)
            return channel.staging + i * channel.staging_size;
    }
    return nullptr;
}

}  // namespace
}  // namespace leat::tracer

using namespace leat::tracer;

void leat_write(leat_tracepoint* tracepoint, void* payload, size_t size) {
    const auto* binding = static_cast<const Binding*>(__atomic_load_n(&tracepoint->binding, __ATOMIC_ACQUIRE));
    if (binding == nullptr || binding->channel == nullptr) return;
    if (__builtin_expect(!goes_straight(*binding->channel), 0))
        return write_with_care(*tracepoint, *binding, static_cast<char*>(payload), size);
    const Record record = with_contexts(static_cast<char*>(payload), size);
    leat::ring::leat_rseq_write_or(&binding->channel->map, &binding->header, &tracepoint->enabled, record.bytes,
                                   record.size, not_written);
}

void* leat_stage_large(leat_tracepoint* tracepoint, size_t size) {
    const auto* binding = static_cast<const Binding*>(__atomic_load_n(&tracepoint->binding, __ATOMIC_ACQUIRE));
    if (binding == nullptr || binding->channel == nullptr) return nullptr;
    const Channel& channel = *binding->channel;
    if (size > leat::ring::max_record_size(channel.map.size())) {
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
        write_with_care(*tracepoint, *binding, static_cast<char*>(payload), size);
    const auto index =
        static_cast<uint64_t>(static_cast<char*>(payload) - process_channel.staging) / process_channel.staging_size;
    __atomic_store_n(&process_page->staging_is_lent[index], 0, __ATOMIC_RELEASE);
}
