#include "tracer/careful_record.hpp"

#include <errno.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "leat/abi.h"
#include "ring/clock.hpp"
#include "ring/thread_writer.hpp"
#include "tracer/channel.hpp"
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

static_assert(LEAT_STAGE_SLACK >= ring::kCopySlack);
static_assert(LEAT_STAGE_SMALL + wire::kMaxContextSize <= ring::max_record_size(ring::kMinRingSize));

// With room for contexts that differ from call to call, and for the writer's last block of 16 bytes.
struct RoomyWriter {
    ring::RecordWriter writer;
    char more_contexts[2 * 16];

    void append(const void* value, uint64_t size) {
        char* const contexts = reinterpret_cast<char*>(this) + offsetof(ring::RecordWriter, contexts);  // NOLINT
        memcpy(contexts + writer.context_size, value, size);
        writer.context_size += size;
    }
};
static_assert(offsetof(RoomyWriter, more_contexts) == offsetof(ring::RecordWriter, contexts) + ring::kContextRoom);
static_assert(wire::kMaxContextSize + 15 <= ring::kContextRoom + sizeof(RoomyWriter::more_contexts));

// The ring that counts what this thread discards. Any ring will do: the counters are atomic, and the thread may be
// moved to another CPU as soon as it knows its number.
RingHeader& counting_ring(const Channel& channel) {
    if (!channel.has_rseq) {
        const ThreadChannel* const mine = find_filled(channel, channel_key(channel.number));
        return mine != nullptr && mine->ring != nullptr ? *mine->ring : *channel.map.ring(0);
    }
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

// Writes by `write(now)` until that has succeeded, or failed for good. `ring()`: where it would write. False: somebody
// has switched the tracepoint.
template <class Write, class Ring>
bool write_in_turns(const Record& record, uint64_t now, Write write, Ring ring) {
    const Channel& channel = record.channel;
    bool is_awaited = false;
    WriteOutcome outcome = write(now);
    for (int turn = 0; turn < kMaxTurns; ++turn) {
        if (outcome == WriteOutcome::kNoRoom) {
            const Room room = make_room(channel, ring(), record.size());
            is_awaited = is_awaited || room.is_awaited;
            if (!room.is_there) break;
        } else if (outcome != WriteOutcome::kNoTime) {
            break;
        }
        outcome = write(ring::clock_now(*channel.map.clock));
    }
    if (outcome == WriteOutcome::kNoRoom) count_in(channel, DiscardReason::kRingFull);
    if (outcome == WriteOutcome::kNoRing) count_in(channel, DiscardReason::kNoRing);
    if (outcome == WriteOutcome::kNoTime) count_in(channel, DiscardReason::kInterrupted);
    // Ring the bell after the commit. A consumer woken earlier would find nothing and arm the bell again. A writer may
    // be killed before it rings, so hosts also drain periodically.
    if (is_awaited) ring_doorbell(channel);
    return outcome != WriteOutcome::kChanged;
}

bool write_to_cpu_ring(const Record& record, ring::RecordWriter& writer, uint64_t now) {
    const Channel& channel = record.channel;
    const bool uses_tsc = ring::uses_tsc(*channel.map.clock);
    const auto write = [&](uint64_t at) {
        writer.system_time = uses_tsc ? 0 : at;
        return ring::leat_rseq_write(&writer, ring::event_key(channel.number, record.id), record.word, record.payload,
                                     record.payload_size, record.expected);
    };
    const auto ring = [&]() -> RingHeader& { return counting_ring(channel); };
    return write_in_turns(record, now, write, ring);
}

// A signal handler that interrupts the writer of a thread-owned ring must not write there:
//
//     thread     is_writing = 1   copies half a record                           commits at its old head
//     handler                                            would write at the same head
//
// The fences keep the compiler from moving the ring's stores out of the flag's time. The processor shows a handler its
// own thread's stores in order, so they need no more than that.
class ThreadFlag {
  public:
    explicit ThreadFlag(uint32_t& flag) : flag_(flag), was_set_(flag != 0) {
        flag_ = 1;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    }
    ~ThreadFlag() {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (!was_set_) flag_ = 0;
    }
    ThreadFlag(const ThreadFlag&) = delete;
    ThreadFlag& operator=(const ThreadFlag&) = delete;
    [[nodiscard]] bool was_set() const { return was_set_; }

  private:
    uint32_t& flag_;
    bool was_set_;
};

RingHeader* own_ring(ThreadChannel& mine, uint64_t now) {
    if (mine.ring != nullptr || now < mine.claim_again) return mine.ring;
    mine.ring = claim_ring(*mine.channel, thread_state.tid);
    if (mine.ring == nullptr) mine.claim_again = now + kClaimPause;
    return mine.ring;
}

bool write_to_ring_of_thread(const Record& record, const ring::RecordWriter& writer, RingHeader& ring, uint64_t now) {
    const auto write = [&](uint64_t at) {
        // As the sequence does; but a thread that is stopped between this and its commit is not sent back.
        if (__atomic_load_n(record.word, __ATOMIC_ACQUIRE) != record.expected) return WriteOutcome::kChanged;
        return ring::thread_write(writer, ring, record.id, record.payload, record.payload_size, at);
    };
    return write_in_turns(record, now, write, [&]() -> RingHeader& { return ring; });
}

bool write_to_own_ring(const Record& record, const ring::RecordWriter& writer, RingHeader* ring, uint64_t now) {
    const ThreadFlag writing(thread_state.is_writing);
    if (!writing.was_set() && ring != nullptr) return write_to_ring_of_thread(record, writer, *ring, now);
    count_in(record.channel, writing.was_set() ? DiscardReason::kInterrupted : DiscardReason::kNoRing);
    return true;
}

// A writer for one record of the task, made from nothing.
RoomyWriter make_writer(const Channel& channel, const Task& task) {
    RoomyWriter made;
    made.writer.map = channel.map;
    made.writer.system_time = 0;
    made.writer.channel = channel.number;
    set_contexts(made.writer, channel.contexts, task);
    return made;
}

// Contexts that differ from call to call come after those of the thread.
void append_contexts_of_call(RoomyWriter& made, const Record& record) {
    made.writer.not_written = nullptr;                           // the result tells
    const uint64_t ip = reinterpret_cast<uintptr_t>(record.ip);  // NOLINT(*-reinterpret-cast)
    if ((record.channel.contexts & wire::kContextIp) != 0) made.append(&ip, sizeof ip);
}

// Leaves no trace in the thread-local state: that is another task's.
bool write_as_guest(const Record& record, const Task& task, uint64_t now) {
    const Channel& channel = record.channel;
    const GuestRing ring(channel, task.tid);
    if (ring.get() == nullptr) {
        count_in(channel, DiscardReason::kBorrowed);
        return true;
    }
    RoomyWriter made = make_writer(channel, task);
    append_contexts_of_call(made, record);
    return write_to_ring_of_thread(record, made.writer, *ring.get(), now);
}

// See thread_identity.hpp.
bool must_ask(const Channel& channel, uint64_t now) {
    if (thread_state.is_shared != 0) return true;
    return !channel.sees_vforks && static_cast<int64_t>(now) - thread_state.last_write > kLongestPause;
}

// Fills in what the thread keeps for the channel, as far as that is needed. `task`: who runs, if that was asked.
// Call it while is_filling is set.
ThreadChannel& prepare(const Channel& channel, const Task* task, uint64_t now) {
    const bool is_stale =
        task != nullptr && (thread_state.tid != task->tid || now - thread_state.refreshed > kLongestNameAge);
    // The other channels' contexts are as old.
    if (is_stale) forget_contexts();
    ThreadChannel* mine = find_filled(channel, channel_key(channel.number));
    if (mine == nullptr) mine = &refresh_thread_state(channel, task != nullptr ? *task : running_task(channel), now);
    thread_state.last_write = static_cast<int64_t>(now);
    ThreadChannel& kept = note_miss(*mine);
    go_straight_if_possible(kept);
    return kept;
}

// By a thread that is its own. A signal handler that interrupts it in between finds the flag, and leaves what the
// thread keeps as it is.
bool write_as_owner(const Record& record, const Task* task, uint64_t now) {
    const Channel& channel = record.channel;
    RingHeader* ring = nullptr;
    RoomyWriter made;
    {
        const ThreadFlag filling(thread_state.is_filling);
        if (filling.was_set() && !channel.has_rseq) {
            count_in(channel, DiscardReason::kInterrupted);
            return true;
        }
        if (filling.was_set()) {
            made = make_writer(channel, task != nullptr ? *task : running_task(channel));
        } else {
            ThreadChannel& mine = prepare(channel, task, now);
            made.writer = mine.writer;
            if (!channel.has_rseq) ring = own_ring(mine, now);
        }
    }
    append_contexts_of_call(made, record);
    return channel.has_rseq ? write_to_cpu_ring(record, made.writer, now)
                            : write_to_own_ring(record, made.writer, ring, now);
}

}  // namespace

bool write_record(const Record& record) {
    const Channel& channel = record.channel;
    if (record.size() > ring::max_record_size(channel.map.size())) {
        count_in(channel, DiscardReason::kTooLarge);
        return true;
    }
    const uint64_t now = ring::clock_now(*channel.map.clock);
    const bool is_filled = find_filled(channel, channel_key(channel.number)) != nullptr;
    if (is_filled && !must_ask(channel, now)) return write_as_owner(record, nullptr, now);
    const Task task = running_task(channel);
    return task.owns_thread ? write_as_owner(record, &task, now) : write_as_guest(record, task, now);
}

__attribute__((noinline)) void count_in(const Channel& channel, DiscardReason reason) {
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

}  // namespace leat::tracer
