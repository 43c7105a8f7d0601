// The fast path: a staged payload becomes an event record in a ring, or is counted.
#include <errno.h>
#include <linux/futex.h>
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

// The contexts as one block in front of the payload: constant-size moves, whatever their number.
static_assert(kContextBlockSize <= LEAT_STAGE_HEADROOM && LEAT_STAGE_SLACK >= ring::kCopySlack);

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

WriteOutcome write_to_cpu_ring(const leat_tracepoint& tracepoint, const Binding& binding, Record record) {
    const Channel& channel = *binding.channel;
    const bool has_tsc = channel.map.clock->source == ring::ClockSource::kTsc;
    return ring::leat_rseq_write(&channel.map, &binding.header, &tracepoint.enabled, record.bytes, record.size,
                                 has_tsc ? 0 : ring::system_now());
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

// Everything but the common case, which left with `outcome`.
__attribute__((noinline)) void write_slowly(const leat_tracepoint& tracepoint, const Binding& binding, Record record,
                                            WriteOutcome outcome) {
    const Channel& channel = *binding.channel;
    bool is_awaited = false;
    // Each turn that finds room again has met a new wish to be woken, from a consumer that came in between.
    for (int turn = 0; turn < kMaxTurns && outcome == WriteOutcome::kNoRoom; ++turn) {
        const Room room = make_room(channel, counting_ring(channel), record.size);
        is_awaited = is_awaited || room.is_awaited;
        if (!room.is_there) break;
        outcome =
            channel.has_rseq ? write_to_cpu_ring(tracepoint, binding, record) : write_to_own_ring(binding, record);
    }
    if (outcome == WriteOutcome::kNoRoom) count_discarded(channel, DiscardReason::kRingFull);
    if (outcome == WriteOutcome::kNoRing) count_discarded(channel, DiscardReason::kNoRing);
    // Behind the record: a consumer woken before it is there would find nothing, and ask again, in our way.
    // A writer that is killed between taking the wish down and this rings never: hosts also drain now and then.
    if (is_awaited) ring_doorbell(channel);
}

// First event of a thread or after a fork, or a thread without rseq.
__attribute__((noinline)) void write_from_unprepared_thread(const leat_tracepoint& tracepoint, const Binding& binding,
                                                            char* payload, uint64_t size);

inline void write_record(const leat_tracepoint& tracepoint, const Binding& binding, char* payload, uint64_t size) {
    const Channel& channel = *binding.channel;
    const ThreadState& thread = thread_state;
    memcpy(payload - kContextBlockSize, thread.context_block, kContextBlockSize);
    const Record record{payload - thread.context_size, size + thread.context_size};
    if (record.size > ring::max_record_size(channel.map.size()))
        return count_discarded(channel, DiscardReason::kTooLarge);
    if (channel.has_rseq) {
        const WriteOutcome outcome = write_to_cpu_ring(tracepoint, binding, record);
        if (__builtin_expect(outcome != WriteOutcome::kWritten, 0)) write_slowly(tracepoint, binding, record, outcome);
        return;
    }
    const WritingFlag flag;
    if (flag.was_set()) return count_discarded(channel, DiscardReason::kInterrupted);
    const WriteOutcome outcome = write_to_own_ring(binding, record);
    if (outcome != WriteOutcome::kWritten) write_slowly(tracepoint, binding, record, outcome);
}

void write_from_unprepared_thread(const leat_tracepoint& tracepoint, const Binding& binding, char* payload,
                                  uint64_t size) {
    if (thread_state.is_borrowed != 0) return count_discarded(*binding.channel, DiscardReason::kBorrowed);
    refresh_thread_state(binding.channel->contexts);
    write_record(tracepoint, binding, payload, size);
}

bool is_prepared(const Channel& channel) {
    const ThreadState& thread = thread_state;
    return thread.generation == __atomic_load_n(&process_page->generation, __ATOMIC_RELAXED) &&
           thread.generation != 0 && thread.context_mask == channel.contexts;
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
    if (__builtin_expect(is_prepared(*binding->channel), 1))
        write_record(*tracepoint, *binding, static_cast<char*>(payload), size);
    else
        write_from_unprepared_thread(*tracepoint, *binding, static_cast<char*>(payload), size);
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
    leat_write(tracepoint, payload, size);
    const auto index =
        static_cast<uint64_t>(static_cast<char*>(payload) - process_channel.staging) / process_channel.staging_size;
    __atomic_store_n(&process_page->staging_is_lent[index], 0, __ATOMIC_RELEASE);
}
