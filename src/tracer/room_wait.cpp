#include "tracer/room_wait.hpp"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ring/clock.hpp"
#include "tracer/running_call.hpp"
#include "tracer/thread_state.hpp"

namespace leat::tracer {
namespace {

constexpr uint64_t kForever = UINT64_MAX;
// A consumer empties a ring of 1 MiB in less than 1 ms.
constexpr uint64_t kShortestNap = 100'000;   // ns
constexpr uint64_t kLongestNap = 5'000'000;  // ns

bool is_allowed = false;

// Of the thread, see running_call.hpp: a signal handler that interrupts a wait does not wait itself.
constinit thread_local __attribute__((tls_model("initial-exec"))) uintptr_t waiting_frame = 0;

// Its time may be a little ahead of ours: TSCs of two CPUs differ.
bool is_consumer_alive(const Channel& channel) {
    const uint64_t heartbeat = __atomic_load_n(&channel.set->heartbeat, __ATOMIC_RELAXED);
    const uint64_t now = ring::clock_now(*channel.map.clock);
    return heartbeat <= now + ring::kLongestSilence && now <= heartbeat + ring::kLongestSilence;
}

// A futex that nobody wakes: it returns at once if tail has moved, and needs no other system call than the doorbell's.
// Meanwhile, nothing in a ring of the thread is half done: handlers may write there, and jump out of the wait.
void sleep_while(const uint64_t& tail, uint64_t value, uint64_t length) {
    const int saved_errno = errno;
    const uint32_t was_writing = thread_state.is_writing;
    thread_state.is_writing = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const timespec time{static_cast<time_t>(length / 1'000'000'000), static_cast<long>(length % 1'000'000'000)};
    syscall(SYS_futex, &tail, FUTEX_WAIT, static_cast<uint32_t>(value), &time, nullptr, 0);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread_state.is_writing = was_writing;
    errno = saved_errno;
}

}  // namespace

// secure_getenv() knows nothing in setuid programs: whoever starts one must not choose that it waits.
void prepare_blocking() {
    const char* const value = secure_getenv("LEAT_ALLOW_BLOCKING");
    is_allowed = value != nullptr && value[0] != '\0' && strcmp(value, "0") != 0;
}

bool allows_blocking() { return is_allowed; }

bool would_wait(const Channel& channel, const ring::RingHeader& ring, uint64_t tail) {
    return channel.blocking_timeout_us != wire::kNoBlocking && is_allowed && !runs_around(waiting_frame, own_frame()) &&
           __atomic_load_n(&ring.gave_up_at, __ATOMIC_RELAXED) != tail + 1 && is_consumer_alive(channel);
}

bool RoomWait::begin(const ring::RingHeader& ring, uint64_t tail) {
    if (!would_wait(channel_, ring, tail)) return false;
    const uint32_t timeout_us = channel_.blocking_timeout_us;
    until_ = timeout_us == wire::kBlocksForever ? kForever : ring::system_now() + uint64_t{timeout_us} * 1'000;
    length_ = kShortestNap;
    has_begun_ = true;
    waiting_frame = own_frame();
    return true;
}

RoomWait::~RoomWait() {
    if (has_begun_) waiting_frame = 0;
}

bool RoomWait::nap(ring::RingHeader& ring, uint64_t tail) {
    if (!is_possible_ || !(has_begun_ ? is_consumer_alive(channel_) : begin(ring, tail))) return false;
    const uint64_t now = ring::system_now();
    if (now >= until_) {
        __atomic_store_n(&ring.gave_up_at, tail + 1, __ATOMIC_RELAXED);
        return false;
    }
    const uint64_t left = until_ - now;
    sleep_while(ring.tail, tail, length_ < left ? length_ : left);
    length_ = 2 * length_ < kLongestNap ? 2 * length_ : kLongestNap;
    return true;
}

}  // namespace leat::tracer
