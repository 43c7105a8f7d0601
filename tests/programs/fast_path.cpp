// fast-path COUNT: a thread emits test:* COUNT times, after a warm-up on each CPU. From then on, each system call and
// each call of the allocator is a failure. The recorder, our parent, is stopped during that time, so it cannot ask to
// be woken. Prints what a tracer may have changed in the program, and what was caught, as lines of "name number".
#include <dirent.h>
#include <leat/tracepoint.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <leat/event.hpp>

#include "ring/ring_format.hpp"
#include "stopped_recorder.hpp"

#define BLOCK_FIELDS(FIELD)   \
    FIELD(string, text, text) \
    FIELD(sequence, uint8_t, block, block, size_t, size)
LEAT_TRACEPOINT(test, block, LEAT_INFO, BLOCK_FIELDS, const char* text, const uint8_t* block, size_t size);

namespace {

constexpr uint64_t kWarmUp = 100'000;  // enough for a writer to meet the consumer's request to be woken
constexpr int kErrno = 4711;

std::atomic<bool> is_forbidden{false};  // while the thread is on the fast path
std::atomic<int> allocations{0};
std::atomic<int> system_call{-1};  // the first one
std::atomic<int> is_doorbell{0};   // whether that one rang the doorbell
std::atomic<uint64_t> emitted{0};
std::atomic<int> errno_after{0};
std::atomic<long> emitter{0};  // the id of the thread that emits

void allocates() {
    if (is_forbidden.load()) ++allocations;
}

// Ends the thread. The system call was not executed.
void on_system_call(int /*signal*/, siginfo_t* info, void* /*context*/) {
    system_call = info->si_syscall;
    is_doorbell = info->si_errno;  // the number that the filter gave
    syscall(SYS_exit, 0);
}

// The doorbell of the ring set that the recorder gave us; 0: nobody records.
uint64_t doorbell_address() {
    uint64_t address = 0;
    FILE* const maps = fopen("/proc/self/maps", "r");
    if (maps == nullptr) return 0;
    char line[512];
    while (address == 0 && fgets(line, sizeof line, maps) != nullptr) {
        unsigned long begin = 0;
        unsigned long offset = 0;
        const bool is_set_page = strstr(line, "memfd:leat-rings") != nullptr &&
                                 sscanf(line, "%lx-%*x %*s %lx", &begin, &offset) == 2 && offset == 0;
        if (is_set_page) address = begin + offsetof(leat::ring::RingSetHeader, doorbell);
    }
    fclose(maps);
    return address;
}

// Allows no system call but exit, for this thread only. A call that rings the doorbell is caught as number 1, any other
// as number 0.
bool forbid_system_calls() {
    const uint64_t doorbell = doorbell_address();
    constexpr uint32_t kOperation = offsetof(seccomp_data, args[1]);
    constexpr uint32_t kAddress = offsetof(seccomp_data, args[0]);
    sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 7, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 8),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kOperation),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE, 0, 6),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAddress),  // little-endian: its lower half
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(doorbell), 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAddress + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(doorbell >> 32), 1, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    const sock_fprog program = {sizeof steps / sizeof *steps, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void emit(uint64_t n) {
    static const uint8_t block[2000] = {1, 2, 3};
    const uint32_t small = static_cast<uint32_t>(n);
    switch (n % 4) {
        case 0:
            LEAT_EVENT("test:nothing");
            break;
        case 1:
            LEAT_EVENT("test:numbers", n, small);
            break;
        case 2: {
            const char* const text = "twenty-one characters";  // goes straight to the ring
            LEAT_EVENT("test:text", text, small);
            break;
        }
        default:
            // Some events are staged on the heap instead of the stack.
            leat_tracepoint(test, block, "text", block, n % 1024 == 1023 ? sizeof block : 3);
    }
}

// The first event on a CPU maps the ring there.
void emit_on_each_cpu() {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        emit(emitted++);
    }
    sched_setaffinity(0, sizeof allowed, &allowed);
}

void* emit_all(void* argument) {
    const uint64_t count = *static_cast<const uint64_t*>(argument);
    emitter = syscall(SYS_gettid);
    emit_on_each_cpu();
    for (uint64_t n = 0; n < kWarmUp; ++n) emit(n);
    const uint64_t warm_up = emitted += kWarmUp;
    if (!forbid_system_calls()) return nullptr;
    is_forbidden = true;
    errno = kErrno;
    for (uint64_t n = 0; n < count; ++n) {
        emit(n);
        emitted = warm_up + n + 1;
    }
    errno_after = errno;
    is_forbidden = false;
    syscall(SYS_exit, 0);
    return nullptr;
}

int entries_of(const char* directory) {
    int count = 0;
    DIR* const open = opendir(directory);
    if (open == nullptr) return -1;
    while (const dirent* entry = readdir(open)) count += entry->d_name[0] != '.' ? 1 : 0;
    closedir(open);
    return count;
}

int handlers() {
    int count = 0;
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction action = {};
        if (sigaction(signal, nullptr, &action) != 0) continue;
        count += action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN ? 1 : 0;
    }
    return count;
}

int blocked_signals() {
    int count = 0;
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    for (int signal = 1; signal < NSIG; ++signal) count += sigismember(&blocked, signal) == 1 ? 1 : 0;
    return count;
}

// The kernel wakes who joins a thread a moment before it takes the thread from the list of tasks.
void wait_until_gone(long thread) {
    char task[64];
    snprintf(task, sizeof task, "/proc/self/task/%ld", thread);
    while (access(task, F_OK) == 0) sched_yield();
}

void print_state(const char* when) {
    printf("threads_%s %d\n", when, entries_of("/proc/self/task"));
    printf("descriptors_%s %d\n", when, entries_of("/proc/self/fd"));
    printf("handlers_%s %d\n", when, handlers());
    printf("blocked_%s %d\n", when, blocked_signals());
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t size) noexcept;
void* __libc_calloc(size_t count, size_t size) noexcept;
void* __libc_realloc(void* memory, size_t size) noexcept;
void* __libc_memalign(size_t alignment, size_t size) noexcept;
void __libc_free(void* memory) noexcept;

void* malloc(size_t size) noexcept {
    allocates();
    return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) noexcept {
    allocates();
    return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) noexcept {
    allocates();
    return __libc_realloc(memory, size);
}
void* memalign(size_t alignment, size_t size) noexcept {
    allocates();
    return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
    allocates();
    return __libc_memalign(alignment, size);
}
void free(void* memory) noexcept {
    if (memory != nullptr) allocates();
    __libc_free(memory);
}
}

int main(int argc, char** argv) {
    uint64_t count = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1'000'000;
    print_state("before");
    struct sigaction action = {};
    action.sa_sigaction = on_system_call;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSYS, &action, nullptr);
    {
        const StoppedRecorder recorder;
        pthread_t thread;
        if (pthread_create(&thread, nullptr, emit_all, &count) != 0) return 2;
        pthread_join(thread, nullptr);
        wait_until_gone(emitter);
    }
    signal(SIGSYS, SIG_DFL);
    print_state("after");
    printf("emitted %llu\n", static_cast<unsigned long long>(emitted.load()));
    printf("allocations %d\n", allocations.load());
    printf("system_call %d\n", system_call.load());
    printf("is_doorbell %d\n", is_doorbell.load());
    printf("errno_kept %d\n", errno_after.load() == kErrno ? 1 : 0);
    return 0;
}
