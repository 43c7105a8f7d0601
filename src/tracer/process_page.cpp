#include "tracer/process_page.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring/clock.hpp"
#include "ring/ring_format.hpp"
#include "tracer/sandbox.hpp"
#include "tracer/thread_state.hpp"

namespace leat::tracer {
namespace {

bool is_made = false;

// Counts generations in ordinary memory, so that a child's differs from its parent's:
//
//     parent    last_generation 3, generation 3
//     child     last_generation 3, generation 0 (wiped)    then 4, 4: no thread's state of 3 is believed
//
// Were it in the page, a child would begin with 1 again, which may be what its parent's threads were filled in for.
uint32_t last_generation = 0;

// Likewise, of processes: each fork begins one.
uint32_t last_number = 0;

uint32_t next_generation() {
    const uint32_t next = __atomic_add_fetch(&last_generation, 1, __ATOMIC_RELAXED);
    return next != 0 ? next : __atomic_add_fetch(&last_generation, 1, __ATOMIC_RELAXED);
}

// The child of a fork has its memory for itself, and knows best who it is before it makes children of its own.
void settle_in_child() {
    thread_state.is_shared = 0;
    if (!is_sandboxed()) (void)process_pid();
}

// For kernels without MADV_WIPEONFORK (before 4.14), and linkers that put the page into a file: fork() alone is
// noticed.
void wipe_in_child() { process_page[0] = {}; }

// ns; a thread that is to write 512 bytes is stopped for longer only if nobody could be helped.
constexpr uint64_t kStickyPatience = 20'000'000;

// Whether `tid` has the lock now: waits no longer than `patience` (ns), and not at all for itself.
bool take(int32_t& lock, int32_t tid, uint64_t patience) {
    const uint64_t until = ring::system_now() + patience;
    for (;;) {
        int32_t holder = 0;
        if (__atomic_compare_exchange_n(&lock, &holder, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return true;
        if (holder == tid || ring::system_now() >= until) return false;
        sched_yield();
    }
}

// Not nanosleep(), where the thread could be cancelled.
void nap() {
    constexpr long kNap = 1'000'000;  // ns
    const long time[] = {0, kNap};    // the kernel's, whatever timespec is to libc
    syscall(SYS_nanosleep, time, nullptr);
}

bool has_this_thread(const int32_t& lock) {
    return __atomic_load_n(&lock, __ATOMIC_RELAXED) == static_cast<int32_t>(syscall(SYS_gettid));
}

// A handler of the holder may have forked: in the child the lock is free, or is another thread's by now.
void give_back(int32_t& lock, int32_t tid) {
    __atomic_compare_exchange_n(&lock, &tid, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

}  // namespace

ProcessPage process_page[1]{};

void make_process_page() {
    if (is_made) return;
    is_made = true;
    static_assert(sizeof(ProcessPage) == ring::kPageSize);
    const bool is_wiped = madvise(process_page, ring::kPageSize, MADV_WIPEONFORK) == 0;
    if (!is_wiped) pthread_atfork(nullptr, nullptr, wipe_in_child);
    pthread_atfork(nullptr, nullptr, settle_in_child);
    (void)process_pid();  // while it is sure whose memory this is
}

namespace {

// Before anybody asks who this is: a child would believe what its parent was told.
[[gnu::constructor(101)]] void make_at_load() { make_process_page(); }

}  // namespace

uint32_t process_generation() {
    // Z: who sees the new number asks for the thread's contexts after they have changed. Pairs with Y in
    // begin_new_generation().
    uint64_t generation = __atomic_load_n(&process_page->generation, __ATOMIC_ACQUIRE);
    // Two threads may arrive here at once: the first one's number counts.
    const uint64_t next = generation != 0 ? generation : uint64_t{next_generation()} << kGenerationShift;
    if (generation == 0 && __atomic_compare_exchange_n(&process_page->generation, &generation, next, false,
                                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        generation = next;
    return static_cast<uint32_t>(generation >> kGenerationShift);
}

// Y: contexts have changed before threads are told to look. Pairs with Z in process_generation().
void begin_new_generation() {
    __atomic_store_n(&process_page->generation, uint64_t{next_generation()} << kGenerationShift, __ATOMIC_RELEASE);
}

int32_t process_pid() {
    int32_t pid = __atomic_load_n(&process_page->pid, __ATOMIC_RELAXED);
    if (pid != 0) return pid;
    pid = static_cast<int32_t>(syscall(SYS_getpid));
    __atomic_store_n(&process_page->pid, pid, __ATOMIC_RELAXED);
    return pid;
}

bool is_guest() { return syscall(SYS_getpid) != process_pid(); }

uint32_t process_number() {
    uint32_t number = __atomic_load_n(&process_page->number, __ATOMIC_RELAXED);
    if (number != 0) return number;
    const uint32_t next = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
    return __atomic_compare_exchange_n(&process_page->number, &number, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
               ? next
               : number;
}

// The dynamic loader already runs constructors one at a time; this covers programs that call us by themselves. In a
// child of a fork the lock is free, whoever held it in the parent: the kernel wiped the page.
//
// T: what the last holder did to bindings and channel is visible. Pairs with S in ~RegistrationLock().
RegistrationLock::RegistrationLock() {
    constexpr int kYields = 100;
    const auto tid = static_cast<int32_t>(syscall(SYS_gettid));
    for (int look = 0;; ++look) {
        int32_t nobody = 0;
        if (__atomic_compare_exchange_n(&process_page->registering_tid, &nobody, tid, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return;
        // The holder may wait for a daemon for seconds; and on its CPU, a thread of higher priority would keep it from
        // going on.
        if (look < kYields)
            sched_yield();
        else
            nap();
    }
}

// S: pairs with T in RegistrationLock().
RegistrationLock::~RegistrationLock() { __atomic_store_n(&process_page->registering_tid, 0, __ATOMIC_RELEASE); }

bool RegistrationLock::is_ours() { return has_this_thread(process_page->registering_tid); }

// W: what the last holder did to the table of channels is visible. Pairs with X in ~AttachLock().
AttachLock::AttachLock(uint64_t patience)
    : tid_(static_cast<int32_t>(syscall(SYS_gettid))), is_held_(take(process_page->attaching_tid, tid_, patience)) {}

// X: pairs with W in AttachLock().
AttachLock::~AttachLock() {
    if (is_held_) give_back(process_page->attaching_tid, tid_);
}

bool AttachLock::is_ours() { return has_this_thread(process_page->attaching_tid); }

// AC: what the last holder did to the values is visible. Pairs with AD in ~StickyLock().
StickyLock::StickyLock()
    : tid_(static_cast<int32_t>(syscall(SYS_gettid))),
      is_held_(take(process_page->sticking_tid, tid_, kStickyPatience)) {}

// AD: pairs with AC in StickyLock().
StickyLock::~StickyLock() {
    if (is_held_) give_back(process_page->sticking_tid, tid_);
}

}  // namespace leat::tracer
