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
#include "tracer/app_contexts.hpp"
#include "tracer/channel.hpp"
#include "tracer/process_page.hpp"
#include "tracer/ring_owner.hpp"
#include "tracer/room_wait.hpp"
#include "tracer/thread_identity.hpp"
#include "tracer/thread_state.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using ring::RingHeader;
using ring::WriteOutcome;

// Each turn has met something new: a wish to be woken, from a consumer that came in between; a clock that lost the TSC.
constexpr int kMaxTurns = 100;

// Where nobody tells us of it, a thread that changes its name, ids or namespaces is shown with the new ones after this
// time, ns, by its first event after a pause.
constexpr uint64_t kLongestContextAge = 1'000'000;
// Nobody looks for a free ring more often, ns: to look asks for each owner whether it lives.
constexpr uint64_t kClaimPause = 10'000'000;

static_assert(LEAT_STAGE_SLACK >= ring::kCopySlack);
static_assert(LEAT_STAGE_SMALL + wire::kMaxContextSize + wire::kMaxAppContexts * wire::kMaxAppContextSize <=
              ring::max_record_size(ring::kMinRingSize));

// By the thread's rseq area; a number beyond all rings if the kernel has not filled that in.
uint32_t own_cpu(const Channel& channel) {
    const char* area = static_cast<const char*>(__builtin_thread_pointer()) + channel.map.rseq_offset;
    uint32_t cpu = 0;
    memcpy(&cpu, area + offsetof(struct rseq, cpu_id), sizeof cpu);
    return cpu;
}

// The ring that counts what this thread discards. Any ring will do: the counters are atomic, and the thread may be
// moved to another CPU as soon as it knows its number.
RingHeader& counting_ring(const Channel& channel) {
    if (!channel.has_rseq) {
        const ThreadChannel* const mine = find_filled(channel, channel_key(channel.number));
        return mine != nullptr && mine->ring != nullptr ? *mine->ring : first_header(channel);
    }
    const uint32_t cpu = own_cpu(channel);
    return cpu < channel.map.cpu_ring_count ? header_in_file(channel, cpu) : first_header(channel);
}

// The writer found no ring for its CPU. By now it may run on another one.
bool map_ring_of_cpu(const Channel& channel) {
    const int saved_errno = errno;
    const uint32_t cpu = own_cpu(channel);
    const bool is_mapped = cpu < channel.map.cpu_ring_count && map_ring(channel, cpu) != nullptr;
    if (is_mapped) touch_ahead(channel, cpu);
    errno = saved_errno;
    return is_mapped;
}

// The writer met `limit`, and goes on into pages that this process may not have mapped. By now it may run on another
// CPU.
RingHeader& ring_that_goes_on(const Channel& channel) {
    const uint32_t cpu = own_cpu(channel);
    if (cpu < channel.map.cpu_ring_count) touch_ahead(channel, cpu);
    return counting_ring(channel);
}

// This process comes to the ring of its CPU for the first time: it was mapped when the channel was attached, or a
// parent has mapped it, whose pages its child has not.
void touch_first_pages(const Channel& channel) {
    const uint32_t cpu = own_cpu(channel);
    if (cpu < channel.map.cpu_ring_count && !has_touched(channel, cpu)) touch_ahead(channel, cpu);
}

// Whether a record fits below `end`; its header may take any form.
bool has_room(const RingHeader& ring, uint64_t record_size, uint64_t end) {
    const uint64_t head = __atomic_load_n(&ring.head, __ATOMIC_RELAXED);
    return head + ring::kMaxHeaderSize + record_size + ring::kCopySlack <= end;
}

struct Room {
    bool is_there;    // write again
    bool is_awaited;  // limit was the consumer's wish to be woken; it is taken down
    uint64_t tail;    // as it was looked at
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
    const uint64_t tail = __atomic_load_n(&ring.tail, __ATOMIC_ACQUIRE);
    const uint64_t end = tail + channel.map.size();
    // A store too old is harmless: a limit below the true one only brings a writer here again.
    const uint64_t limit = __atomic_exchange_n(&ring.limit, end, __ATOMIC_RELAXED);
    return {has_room(ring, record_size, end), limit != end, tail};
}

// Whether to write again, after a record found no room.
bool find_room(const Record& record, RingHeader& ring, RoomWait& wait, bool& is_awaited) {
    if (record.channel.map.overwrites()) return false;  // it is none of this channel's any more
    const Room room = make_room(record.channel, ring, record.size());
    if (is_retired(record.channel)) {
        // Nobody else shall find room there: a limit above 0 was none of the ring that was here.
        __atomic_store_n(&ring.limit, 0, __ATOMIC_RELAXED);
        return true;
    }
    is_awaited = is_awaited || room.is_awaited;
    if (room.is_there) return true;
    // There is much to read: the consumer shall not wait until we have had room.
    if (is_awaited) ring_doorbell(record.channel);
    is_awaited = false;
    return wait.nap(ring, room.tail);
}

// Writes by `write_now(now)` until that has succeeded, or failed for good. `ring()`: where it would write. False:
// somebody has switched the tracepoint, or the channel is there no more. Whoever waits for room takes as many turns as
// that takes.
template <class Write, class Ring>
bool write_in_turns(const Record& record, uint64_t now, RoomWait& wait, Write write_now, Ring ring) {
    const Channel& channel = record.channel;
    const auto write = [&](uint64_t at) {
        const WriteOutcome outcome = write_now(at);
        return outcome == WriteOutcome::kNoRoom && is_retired(channel) ? WriteOutcome::kChanged : outcome;
    };
    bool is_awaited = false;
    int without_time = 0;
    WriteOutcome outcome = write(now);
    for (int turn = 0; turn < kMaxTurns || wait.is_waiting(); ++turn) {
        if (outcome != WriteOutcome::kNoTime && outcome != WriteOutcome::kNoRoom) break;
        if (outcome == WriteOutcome::kNoTime && ++without_time > kMaxTurns) break;
        if (outcome == WriteOutcome::kNoRoom && !find_room(record, ring(), wait, is_awaited)) break;
        outcome = write(ring::clock_now(*channel.map.clock));
    }
    if (outcome == WriteOutcome::kNoRoom && is_retired(channel)) outcome = WriteOutcome::kChanged;
    if (outcome == WriteOutcome::kNoRoom) count_in(channel, DiscardReason::kRingFull);
    if (outcome == WriteOutcome::kNoRing) count_in(channel, DiscardReason::kNoRing);
    if (outcome == WriteOutcome::kNoTime) count_in(channel, DiscardReason::kInterrupted);
    // Ring the bell after the commit. A consumer woken earlier would find nothing and arm the bell again. A writer may
    // be killed before it rings, so hosts also drain periodically.
    if (is_awaited) ring_doorbell(channel);
    return outcome != WriteOutcome::kChanged;
}

// Who writes, by what is known before anything is asked of the kernel: a signal handler may fork at any time, and its
// child comes back with what its parent was told.
struct Writer {
    uint32_t process = process_number();
    uint32_t generation = process_generation();
};

// A program may fork while its event is written: in a context's get(), or in a signal handler that interrupts a wait
// for room. The child comes here, too, with what was made ready for its parent.
bool is_in_child(uint32_t process) { return __atomic_load_n(&process_page->number, __ATOMIC_RELAXED) != process; }

bool write_to_cpu_ring(const Record& record, ring::RecordWriter& writer, uint32_t process, uint64_t now) {
    const Channel& channel = record.channel;
    const auto write = [&](uint64_t at) {
        if (is_in_child(process)) return WriteOutcome::kChanged;
        // Each time: the clock may leave the TSC while there is no room.
        writer.system_time = ring::uses_tsc(*channel.map.clock) ? 0 : at;
        for (;;) {
            const WriteOutcome outcome =
                ring::leat_rseq_write(&writer, ring::event_key(channel.number, record.id), record.word, record.payload,
                                      record.payload_size, record.expected);
            if (outcome != WriteOutcome::kNoRing || !map_ring_of_cpu(channel)) return outcome;
        }
    };
    touch_first_pages(channel);
    const auto ring = [&]() -> RingHeader& { return ring_that_goes_on(channel); };
    RoomWait wait(channel);
    return write_in_turns(record, now, wait, write, ring);
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

bool write_to_ring_of_thread(const Record& record, const ring::RecordWriter& writer, RingHeader& ring, uint32_t process,
                             uint64_t now, bool may_wait = true) {
    const auto write = [&](uint64_t at) {
        if (is_in_child(process)) return WriteOutcome::kChanged;
        // As the sequence does; but a thread that is stopped between this and its commit is not sent back.
        if (__atomic_load_n(record.word, __ATOMIC_ACQUIRE) != record.expected) return WriteOutcome::kChanged;
        return ring::thread_write(writer, ring, record.id, record.payload, record.payload_size, at);
    };
    RoomWait wait(record.channel, may_wait);
    return write_in_turns(record, now, wait, write, [&]() -> RingHeader& { return ring; });
}

bool write_to_own_ring(const Record& record, const ring::RecordWriter& writer, RingHeader* ring, uint32_t process,
                       uint64_t now) {
    const ThreadFlag writing(thread_state.is_writing);
    if (!writing.was_set() && ring != nullptr) return write_to_ring_of_thread(record, writer, *ring, process, now);
    count_in(record.channel, writing.was_set() ? DiscardReason::kInterrupted : DiscardReason::kNoRing);
    return true;
}

// A writer for one record of the task, made from nothing.
void make_writer(RoomyWriter& made, const Channel& channel, const Task& task) {
    made.base.map = channel.map;
    made.base.system_time = 0;
    made.base.channel = channel.number;
    set_contexts(made, channel.contexts, task);
}

// Contexts that differ from call to call come after those of the thread.
void append_contexts_of_call(CallWriter& made, const Record& record) {
    const uint64_t ip = reinterpret_cast<uintptr_t>(record.ip);  // NOLINT(*-reinterpret-cast)
    if ((record.channel.contexts & wire::kContextIp) != 0) made.roomy.append(&ip, sizeof ip);
    append_app_contexts(made, record.channel);
}

// Leaves no trace in the thread-local state: that is another task's. Its parent cannot go on before it does, so it does
// not wait.
bool write_as_guest(const Record& record, const Writer& writer, const Task& task, uint64_t now) {
    const Channel& channel = record.channel;
    const GuestRing ring(channel, task.tid);
    if (ring.get() == nullptr) {
        count_in(channel, DiscardReason::kBorrowed);
        return true;
    }
    CallWriter made;
    make_writer(made.roomy, channel, task);
    append_contexts_of_call(made, record);
    return write_to_ring_of_thread(record, made.roomy.base, *ring.get(), writer.process, now, false);
}

// Daemons have clocks of their own.
int64_t& last_write(const Channel& channel) {
    return thread_state.last_write[static_cast<uint32_t>(wire::lane_of(channel.number))];
}

// See thread_identity.hpp.
bool must_ask(const Channel& channel, uint64_t now) {
    if (thread_state.is_shared != 0) return true;
    // Below 0: another daemon has taken the place of the one whose clock it was.
    const int64_t pause = static_cast<int64_t>(now) - last_write(channel);
    return !channel.sees_vforks && (pause > kLongestPause || pause < 0);
}

// Fills in what the thread keeps for the channel, as far as that is needed. `task`: who runs, if that was asked.
// Call it while is_filling is set.
ThreadChannel& prepare(const Channel& channel, uint32_t generation, const Task* task, uint64_t now) {
    const bool is_stale =
        task != nullptr && (thread_state.tid != task->tid || now - thread_state.refreshed > kLongestContextAge);
    // The other channels' contexts are as old.
    if (is_stale) forget_contexts();
    ThreadChannel* mine = find_filled(channel, channel_key(channel.number));
    if (mine == nullptr)
        mine = &refresh_thread_state(channel, generation, task != nullptr ? *task : running_task(channel), now);
    last_write(channel) = static_cast<int64_t>(now);
    ThreadChannel& kept = note_miss(*mine);
    go_straight_if_possible(kept);
    return kept;
}

// By a thread that is its own. A signal handler that interrupts it in between finds the flag, and leaves what the
// thread keeps as it is.
bool write_as_owner(const Record& record, const Writer& writer, const Task* task, uint64_t now) {
    const Channel& channel = record.channel;
    RingHeader* ring = nullptr;
    CallWriter made;
    {
        const ThreadFlag filling(thread_state.is_filling);
        if (filling.was_set() && !channel.has_rseq) {
            count_in(channel, DiscardReason::kInterrupted);
            return true;
        }
        if (filling.was_set()) {
            make_writer(made.roomy, channel, task != nullptr ? *task : running_task(channel));
        } else {
            ThreadChannel& mine = prepare(channel, writer.generation, task, now);
            made.roomy.take_over(mine.writer);
            if (!channel.has_rseq) ring = own_ring(mine, now);
        }
    }
    append_contexts_of_call(made, record);
    // It does not begin anew: that would ask the program again, and each child would have another one.
    if (is_in_child(writer.process)) {
        count_in(channel, DiscardReason::kInterrupted);
        return true;
    }
    return channel.has_rseq ? write_to_cpu_ring(record, made.roomy.base, writer.process, now)
                            : write_to_own_ring(record, made.roomy.base, ring, writer.process, now);
}

}  // namespace

void ring_doorbell(const Channel& channel) {
    const int saved_errno = errno;
    // W: who hears this ring sees the record. Pairs with X in DoorbellWaiter::rings_of_writers().
    __atomic_add_fetch(&channel.set->doorbell, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &channel.set->doorbell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    errno = saved_errno;
}

bool write_record(const Record& record) {
    const Channel& channel = record.channel;
    if (record.size() > ring::max_record_size(channel.map.size())) {
        count_in(channel, DiscardReason::kTooLarge);
        return true;
    }
    const Writer writer;
    const uint64_t now = ring::clock_now(*channel.map.clock);
    const bool is_filled = find_filled(channel, channel_key(channel.number)) != nullptr;
    if (is_filled && !must_ask(channel, now)) return write_as_owner(record, writer, nullptr, now);
    const Task task = running_task(channel);
    return task.owns_thread ? write_as_owner(record, writer, &task, now) : write_as_guest(record, writer, task, now);
}

__attribute__((noinline)) void count_in(const Channel& channel, DiscardReason reason) {
    __atomic_add_fetch(&counting_ring(channel).discarded[static_cast<uint32_t>(reason)], 1, __ATOMIC_RELAXED);
}

bool count_if_full(const Channel& channel, uint64_t record_size) {
    if (channel.map.overwrites()) return false;
    RingHeader& ring = counting_ring(channel);
    // H, as in make_room(). A limit other than `end` is a wish to be woken, or an old one: make_room() sees to it.
    const uint64_t tail = __atomic_load_n(&ring.tail, __ATOMIC_ACQUIRE);
    const uint64_t end = tail + channel.map.size();
    if (__atomic_load_n(&ring.limit, __ATOMIC_RELAXED) != end || has_room(ring, record_size, end)) return false;
    if (would_wait(channel, ring, tail)) return false;
    __atomic_add_fetch(&ring.discarded[static_cast<uint32_t>(DiscardReason::kRingFull)], 1, __ATOMIC_RELAXED);
    return true;
}

}  // namespace leat::tracer
