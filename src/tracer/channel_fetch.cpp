#include "tracer/channel_fetch.hpp"

#include <errno.h>

#include "ring/clock.hpp"
#include "tracer/daemon_directory.hpp"
#include "tracer/daemon_socket.hpp"
#include "tracer/process_page.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::tracer {
namespace {

using wire::Lane;

uint64_t& failed_at(Lane lane) { return fetching.failed_at[static_cast<uint32_t>(lane)]; }

uint32_t& failed_number(Lane lane) { return fetching.failed_number[static_cast<uint32_t>(lane)]; }

bool is_any_pausing(Lane lane) {
    const uint64_t failed = __atomic_load_n(&failed_at(lane), __ATOMIC_RELAXED);
    return failed != 0 && ring::system_now() < failed + fetching.pause;
}

bool is_pausing(Lane lane, uint32_t number) {
    const uint32_t failed = __atomic_load_n(&failed_number(lane), __ATOMIC_RELAXED);
    return (failed == number || failed == Fetching::kAnyChannel) && is_any_pausing(lane);
}

void pause(Lane lane, uint32_t number) {
    __atomic_store_n(&failed_number(lane), number, __ATOMIC_RELAXED);
    __atomic_store_n(&failed_at(lane), ring::system_now(), __ATOMIC_RELAXED);
}

// One that cannot be had, or mapped, is asked for again and again if its events are many: the others of the lane must
// not go without theirs for it. But a second one, and a daemon that says nothing, cost a pause of all.
void pause_for(Lane lane, uint32_t number, bool is_answered) {
    pause(lane, is_answered && !is_any_pausing(lane) ? number : Fetching::kAnyChannel);
}

// Signals do not make it longer.
bool wait_for_answer(const DaemonSocket& socket) {
    const uint64_t until = ring::system_now() + fetching.patience;
    for (;;) {
        const uint64_t now = ring::system_now();
        const uint64_t left = now < until ? until - now : 0;
        int fd = socket.fd();
        if (wait_until_readable(&fd, 1, static_cast<int>((left + 999'999) / 1'000'000))) return true;
        if (left == 0) return false;
    }
}

// Under the AttachLock. `is_answered`: the daemon has said something, whatever that is.
const Channel* ask(Lane lane, uint32_t number, bool& is_answered) {
    const wire::AttachMessage message{{wire::kAppMagic, wire::kAppVersion, wire::AppMessageType::kAttach}, number, 0};
    DaemonSocket socket;
    Answer answer;
    is_answered = socket.connect(lane) == DaemonSocket::Connected::kYes && socket.send(&message, sizeof message) &&
                  wait_for_answer(socket);
    if (!is_answered || !answer.receive(socket) || !answer.is_channel() || answer.channel().number != number)
        return nullptr;
    return attach_channel(answer.channel(), answer.ring_set_fd(), answer.clock_fd(), answer.app_contexts());
}

const Channel* fetch(Lane lane, uint32_t number) {
    const AttachLock lock(fetching.patience);
    // Whoever had the lock before us may have been faster, or have failed.
    const Channel* found = find_channel(number);
    // A thread that has the lock for so long does not run: no other event is to wait for it.
    if (found == nullptr && !lock.is_held() && !AttachLock::is_ours()) pause(lane, Fetching::kAnyChannel);
    if (found != nullptr || !lock.is_held() || is_pausing(lane, number) || is_crowded()) return found;
    bool is_answered = false;
    found = ask(lane, number, is_answered);
    if (found == nullptr) pause_for(lane, number, is_answered);
    return found;
}

}  // namespace

Fetching fetching;

const Channel* fetch_channel(Lane lane, uint32_t number) {
    if (register_timeout_ms() == 0 || wire::lane_of(number) != lane || is_pausing(lane, number)) return nullptr;
    const int saved_errno = errno;
    const Channel* const channel = is_guest() ? nullptr : fetch(lane, number);
    errno = saved_errno;
    return channel;
}

}  // namespace leat::tracer
