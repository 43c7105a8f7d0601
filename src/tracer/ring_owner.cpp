#include "tracer/ring_owner.hpp"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/thread_state.hpp"

namespace leat::tracer {
namespace {

pthread_key_t ending_thread_key;
constexpr pthread_key_t kKeysWithoutAllocation = 32;  // glibc
bool has_ending_thread_key = false;

uint64_t owner_word(uint32_t pid_namespace, int32_t tid) {
    return uint64_t{pid_namespace} << 32 | static_cast<uint32_t>(tid);
}

constexpr uint32_t kUnknownNamespace = 0;  // no /proc

// For programs that leave /proc behind (chroot).
uint32_t namespace_at_start = kUnknownNamespace;

// The thread ends. A child of fork() has the key's value from its parent, which goes on writing to those rings: only
// the owner releases. Rings of channels that others have displaced in the thread's state are found by their owner's
// death.
void release_rings(void* /*unused*/) {
    // Keeps signal handlers from claiming the same ring once more while it goes.
    thread_state.is_writing = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    for (ThreadChannel& channel : thread_state.channels) {
        if (channel.ring == nullptr) continue;
        uint64_t self = owner_word(own_pid_namespace(), static_cast<int32_t>(syscall(SYS_gettid)));
        // K: our commits are visible to the next owner. Pairs with L in claim_among().
        __atomic_compare_exchange_n(&channel.ring->owner, &self, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
        channel.ring = nullptr;
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread_state.is_writing = 0;
}

// Thread IDs of another PID namespace tell us nothing: such an owner counts as alive.
bool is_dead(uint64_t owner, uint32_t pid_namespace) {
    if (owner >> 32 != pid_namespace || pid_namespace == kUnknownNamespace) return false;
    return syscall(SYS_tkill, static_cast<int32_t>(owner), 0) != 0 && errno == ESRCH;
}

// The consumer looks at the rings up to the highest that was ever claimed. The number only grows.
// I: raised before the owner stamps its first record: the exchange is a full barrier on x86. Pairs with J in
// RingSet::thread_rings_used().
void tell_use(ring::RingSetHeader& set, uint32_t rings) {
    uint32_t used = __atomic_load_n(&set.thread_rings_used, __ATOMIC_RELAXED);
    while (used < rings && !__atomic_compare_exchange_n(&set.thread_rings_used, &used, rings, false, __ATOMIC_RELEASE,
                                                        __ATOMIC_RELAXED)) {
    }
}

// The header of a ring that belongs to threads; `index` counts those alone.
ring::RingHeader& thread_ring(const Channel& channel, uint32_t index) {
    return header_in_file(channel, channel.map.cpu_ring_count + index);
}

// The first ring from `begin` to `end` that this owner has; `end`: none.
uint32_t find_own(const Channel& channel, uint32_t begin, uint32_t end, uint64_t self) {
    while (begin < end && __atomic_load_n(&thread_ring(channel, begin).owner, __ATOMIC_RELAXED) != self) ++begin;
    return begin;
}

// A ring's `owner`, which processes of all kinds share:
//
//     nobody (0)  ->  us        claimed
//     a dead one  ->  us        taken over; if two try, one wins
//     us          ->  us        ours from before an exec, where `may_be_own`
//     us          ->  nobody    the thread ends, or a guest has written its record
//     another                   left alone, also if it cannot be known whether that one lives
//
// Of the thread-owned rings from `begin` to `end`, one that nobody owns, or whose owner has died. `may_be_own`: one
// that is ours is not in use, and is taken first. Otherwise a thread that has forgotten its ring would get another one
// each time that one below is free, and keep them all.
ring::RingHeader* claim_among(const Channel& channel, uint32_t begin, uint32_t end, int32_t tid, bool may_be_own) {
    const uint32_t pid_namespace = own_pid_namespace();
    const uint64_t self = owner_word(pid_namespace, tid);
    if (may_be_own && pid_namespace != kUnknownNamespace) {
        const uint32_t own = find_own(channel, begin, end, self);
        if (own != end) begin = own;
    }
    for (uint32_t index = begin; index < end; ++index) {
        ring::RingHeader& ring = thread_ring(channel, index);
        uint64_t owner = __atomic_load_n(&ring.owner, __ATOMIC_RELAXED);
        // `self` can be there from before an exec. A ring needs no repair: a dead owner's records are whole.
        const bool is_own = may_be_own && owner == self && pid_namespace != kUnknownNamespace;
        if (owner != 0 && !is_own && !is_dead(owner, pid_namespace)) continue;
        // L: the last owner's commits are visible to us, who go on after them. Pairs with K, where owners give up
        // rings; a dead owner's stores are there once the kernel says that it is dead.
        if (!__atomic_compare_exchange_n(&ring.owner, &owner, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        ring::RingHeader* const mapped = map_ring(channel, channel.map.cpu_ring_count + index);
        if (mapped == nullptr) {
            // K, as in release_rings(), though we have written nothing.
            __atomic_store_n(&ring.owner, 0, __ATOMIC_RELEASE);
            return nullptr;
        }
        // Of its first owner, in overwrite mode (RingSet::create()). That of a channel that is no more stays 0.
        if (channel.map.overwrites() && !is_retired(channel) && mapped->limit == 0)
            mapped->limit = channel.map.block_size;
        tell_use(*channel.set, index + 1);
        return mapped;
    }
    return nullptr;
}

}  // namespace

uint32_t own_pid_namespace() {
    struct stat status {};
    if (stat("/proc/self/ns/pid", &status) != 0) return namespace_at_start;
    return static_cast<uint32_t>(status.st_ino);
}

ring::RingHeader* claim_ring(const Channel& channel, int32_t tid) {
    const int saved_errno = errno;
    // The first rings are for guests. Where there are no others, they are for all.
    const uint32_t count = channel.map.thread_ring_count;
    ring::RingHeader* claimed = claim_among(channel, count > kGuestRings ? kGuestRings : 0, count, tid, true);
    if (claimed != nullptr && has_ending_thread_key) pthread_setspecific(ending_thread_key, claimed);
    errno = saved_errno;
    return claimed;
}

GuestRing::GuestRing(const Channel& channel, int32_t tid) {
    const int saved_errno = errno;
    const uint32_t count = channel.map.thread_ring_count;
    // One that is ours is being written by an event that a signal handler of ours interrupted.
    ring_ = claim_among(channel, 0, count < kGuestRings ? count : kGuestRings, tid, false);
    errno = saved_errno;
}

GuestRing::~GuestRing() {
    // K: the guest's record is visible to the next owner. Pairs with L in claim_among().
    if (ring_ != nullptr) __atomic_store_n(&ring_->owner, 0, __ATOMIC_RELEASE);
}

namespace {

// A library that has libleat.a in it may be unloaded: threads that end later must not be led here.
__attribute__((destructor)) void forget_ending_threads() {
    if (!has_ending_thread_key) return;
    has_ending_thread_key = false;
    pthread_key_delete(ending_thread_key);
}

}  // namespace

void prepare_claims() { namespace_at_start = own_pid_namespace(); }

void release_rings_of_ending_threads() {
    if (has_ending_thread_key) return;
    // A larger key allocates memory when a thread first uses it: then the rings of dead threads are found by their
    // owners.
    has_ending_thread_key =
        pthread_key_create(&ending_thread_key, release_rings) == 0 && ending_thread_key < kKeysWithoutAllocation;
}

}  // namespace leat::tracer
