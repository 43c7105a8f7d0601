#include "tracer/careful_writer.hpp"

#include <errno.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring/clock.hpp"
#include "ring/thread_writer.hpp"
#include "tracer/process_page.hpp"
#include "tracer/ring_owner.hpp"
#include "tracer/thread_identity.hpp"
#include "tracer/thread_state.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using ring::RingHeader;
using ring::WriteOutcome;

// Each turn has met something new: a wish to be woken, from a consumer that came in between; a clock that lost the TSC.
constexpr int kMaxTurns = 100;

// Where nobody tells us of it, a thread that changes its name is shown with the new one after this time, ns, by its
// first event after a pause.
constexpr uint64_t kLongestNameAge = 1'000'000;
// Nobody looks for a free ring more often, ns: to look asks for each owner whether it lives.
constexpr uint64_t kClaimPause = 10'000'000;

static_assert(kContextBlockSize <= LEAT_STAGE_HEADROOM && LEAT_STAGE_SLACK >= ring::kCopySlack);
static_assert(LEAT_STAGE_SMALL + wire::kMaxContextSize <= ring::max_record_size(ring::kMinRingSize));

struct Record {
    const char* bytes;
    uint64_t size;
};

Record with_contexts(Payload payload, const ContextBlock& contexts) {
    memcpy(payload.bytes - kContextBlockSize, contexts.bytes, kContextBlockSize);
    return {payload.bytes - contexts.size, payload.size + contexts.size};
}

// The ring that counts what this thread discards. Any ring will do: the counters are atomic, and the thread may be
// moved to another CPU as soon as it knows its number.
RingHeader& counting_ring(const Channel& channel) {
    if (!channel.has_rseq) return thread_state.ring != nullptr ? *thread_state.ring : *channel.map.ring(0);
    const char* area = static_cast<const char*>(__builtin_thread_pointer()) + channel.map.rseq_offset;
    uint32_t cpu = 0;
    memcpy(&cpu, area + offsetof(struct rseq, cpu_id), sizeof cpu);
    return *channel.map.ring(cpu < channel.map.cpu_ring_count ? cpu : 0);
}

void ring_doorbell(const Channel& channel) {
    const int saved_errno = errno;
    // W: who hears this ring sees the record. Pairs with X in DoorbellWaiter::rings_of_writers().
    __atomic_add_fetch(&channel.set->doorbell, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &channel.set->doorbell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    errno = saved_errno;
}

// Whether a record fits below `end`; its header may take any form.
bool has_room(const RingHeader& ring, uint64_t record_size, uint64_t end) {
    const uint64_t head = __atomic_load_n(&ring.head, __ATOMIC_RELAXED);
    return head + ring::kMaxHeaderSize + record_size + ring::kCopySlack <= end;
}

struct Room {
    bool is_there;    // write again
    bool is_awaited;  // limit was the consumer's wish to be woken; it is taken down
};

// The writer met `limit`. What stopped it shows in the value that it takes down:
//
//     tail         head         end = tail + size
//      | published  |  limit     |                    the consumer's wish: write again, and ring after the commit
//      | published        | head | limit              no wish, no room: full
//      | published  |            | limit              no wish, room: the consumer has released some meanwhile
//
// Several writers may be here at once: one of them finds the wish, and rings. Where the consumer releases room between
// our two looks, the old limit passes for a wish: one bell too many.
Room make_room(const Channel& channel, RingHeader& ring, uint64_t record_size) {
    // H: who sees the room sees that its records are read. Pairs with C in RingReader::release().
    const uint64_t end = __atomic_load_n(&ring.tail, __ATOMIC_ACQUIRE) + channel.map.size();
    // A store too old is harmless: a limit below the true one only brings a writer here again.
    const uint64_t limit = __atomic_exchange_n(&ring.limit, end, __ATOMIC_RELAXED);
    return {has_room(ring, record_size, end), limit != end};
}

// Writes by `write(now)` until that has succeeded, or failed for good. `ring()`: where it would write.
template <class Write, class Ring>
void write_in_turns(const Channel& channel, uint64_t size, uint64_t now, Write write, Ring ring) {
    bool is_awaited = false;
    WriteOutcome outcome = write(now);
    for (int turn = 0; turn < kMaxTurns; ++turn) {
        if (outcome == WriteOutcome::kNoRoom) {
            const Room room = make_room(channel, ring(), size);
            is_awaited = is_awaited || room.is_awaited;
            if (!room.is_there) break;
        } else if (outcome != WriteOutcome::kNoTime) {
            break;
        }
        outcome = write(ring::clock_now(*channel.map.clock));
    }
    if (outcome == WriteOutcome::kNoRoom) count_discarded(channel, DiscardReason::kRingFull);
    if (outcome == WriteOutcome::kNoRing) count_discarded(channel, DiscardReason::kNoRing);
    if (outcome == WriteOutcome::kNoTime) count_discarded(channel, DiscardReason::kInterrupted);
    // Ring the bell after the commit. A consumer woken earlier would find nothing and arm the bell again. A writer may
    // be killed before it rings, so hosts also drain periodically.
    if (is_awaited) ring_doorbell(channel);
}

void write_to_cpu_ring(const leat_tracepoint& tracepoint, const Binding& binding, Record record, uint64_t now) {
    const Channel& channel = *binding.channel;
    const bool uses_tsc = ring::uses_tsc(*channel.map.clock);
    const auto write = [&](uint64_t at) {
        return ring::leat_rseq_write(&channel.map, &binding.header, &tracepoint.enabled, record.bytes, record.size,
                                     uses_tsc ? 0 : at);
    };
    const auto ring = [&]() -> RingHeader& { return counting_ring(channel); };
    write_in_turns(channel, record.size, now, write, ring);
}

// A signal handler that interrupts the writer of a thread-owned ring must not write there:
//
//     thread     is_writing = 1   copies half a record                           commits at its old head
//     handler                                            would write at the same head
//
// The fences keep the compiler from moving the ring's stores out of the flag's time. The processor shows a handler its
// own thread's stores in order, so they need no more than that.
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

RingHeader* own_ring(const Channel& channel, uint64_t now) {
    ThreadState& thread = thread_state;
    if (thread.ring != nullptr || now < thread.claim_again) return thread.ring;
    thread.ring = claim_ring(channel, thread.tid);
    if (thread.ring == nullptr) thread.claim_again = now + kClaimPause;
    return thread.ring;
}

void write_to_ring_of_thread(const Binding& binding, RingHeader& ring, Record record, uint64_t now) {
    const Channel& channel = *binding.channel;
    const auto write = [&](uint64_t at) {
        return ring::thread_write(channel.map, ring, binding.header, record.bytes, record.size, at);
    };
    write_in_turns(channel, record.size, now, write, [&]() -> RingHeader& { return ring; });
}

void write_to_own_ring(const Binding& binding, Record record, uint64_t now) {
    const Channel& channel = *binding.channel;
    const WritingFlag flag;
    if (flag.was_set()) return count_discarded(channel, DiscardReason::kInterrupted);
    RingHeader* const ring = own_ring(channel, now);
    if (ring == nullptr) return count_discarded(channel, DiscardReason::kNoRing);
    write_to_ring_of_thread(binding, *ring, record, now);
}

// Leaves no trace in the thread-local state: that is another task's.
void write_as_guest(const Binding& binding, const Task& task, Payload payload, uint64_t now) {
    const Channel& channel = *binding.channel;
    const GuestRing ring(channel, task.tid);
    if (ring.get() == nullptr) return count_discarded(channel, DiscardReason::kBorrowed);
    const ContextBlock contexts = make_contexts(channel.contexts, task);
    write_to_ring_of_thread(binding, *ring.get(), with_contexts(payload, contexts), now);
}

// Filled in for this process generation and channel.
bool is_prepared(const Channel& channel) {
    const ThreadState& thread = thread_state;
    return thread.generation == __atomic_load_n(&process_page->generation, __ATOMIC_RELAXED) &&
           thread.generation != 0 && thread.context_mask == channel.contexts;
}

// See thread_identity.hpp.
bool must_ask(const Channel& channel, uint64_t now) {
    if (thread_state.is_shared != 0) return true;
    return !channel.sees_vforks && static_cast<int64_t>(now) - thread_state.last_write > kLongestPause;
}

}  // namespace

__attribute__((noinline)) void count_discarded(const Channel& channel, DiscardReason reason) {
    __atomic_add_fetch(&counting_ring(channel).discarded[static_cast<uint32_t>(reason)], 1, __ATOMIC_RELAXED);
}

bool count_if_full(const Channel& channel, uint64_t record_size) {
    RingHeader& ring = counting_ring(channel);
    // H, as in make_room(). A limit other than `end` is a wish to be woken, or an old one: make_room() sees to it.
    const uint64_t end = __atomic_load_n(&ring.tail, __ATOMIC_ACQUIRE) + channel.map.size();
    if (__atomic_load_n(&ring.limit, __ATOMIC_RELAXED) != end || has_room(ring, record_size, end)) return false;
    __atomic_add_fetch(&ring.discarded[static_cast<uint32_t>(DiscardReason::kRingFull)], 1, __ATOMIC_RELAXED);
    return true;
}

void write_with_care(const leat_tracepoint& tracepoint, const Binding& binding, Payload payload) {
    const Channel& channel = *binding.channel;
    const uint64_t now = ring::clock_now(*channel.map.clock);
    if (!is_prepared(channel) || must_ask(channel, now)) {
        const Task task = running_task(channel);
        if (!task.owns_thread) return write_as_guest(binding, task, payload, now);
        const bool is_stale = thread_state.tid != task.tid || now - thread_state.refreshed > kLongestNameAge;
        if (!is_prepared(channel) || is_stale) refresh_thread_state(channel, task, now);
    }
    thread_state.last_write = static_cast<int64_t>(now);
    go_straight_if_possible(channel);
    const Record record = with_contexts(payload, thread_state.contexts);
    if (channel.has_rseq) return write_to_cpu_ring(tracepoint, binding, record, now);
    write_to_own_ring(binding, record, now);
}

}  // namespace leat::tracer
