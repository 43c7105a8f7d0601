#include "tracer/thread_state.hpp"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/channel.hpp"
#include "tracer/process_page.hpp"

namespace leat::tracer {

constinit thread_local __attribute__((tls_model("initial-exec"))) ThreadState thread_state{};

void refresh_thread_state(const Channel& channel) {
    const int saved_errno = errno;
    ThreadState& thread = thread_state;
    const uint32_t context_mask = channel.contexts;
    const uint32_t generation = process_generation();
    // In a child, the ring is still the parent's. The same thread with other contexts keeps it.
    if (thread.generation != generation) thread.ring = nullptr;
    thread.tid = static_cast<int32_t>(syscall(SYS_gettid));
    const auto pid = static_cast<int32_t>(syscall(SYS_getpid));
    char name[wire::kProcnameSize] = {};
    prctl(PR_GET_NAME, name);

    thread.straight_to = nullptr;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    char contexts[kContextBlockSize];
    uint32_t size = 0;
    const auto append = [&](uint32_t context, const void* value, uint32_t value_size) {
        if ((context_mask & context) == 0) return;
        memcpy(contexts + size, value, value_size);
        size += value_size;
    };
    append(wire::kContextVpid, &pid, sizeof pid);
    append(wire::kContextVtid, &thread.tid, sizeof thread.tid);
    append(wire::kContextProcname, name, sizeof name);
    memcpy(thread.context_block + kContextBlockSize - size, contexts, size);
    thread.context_size = size;
    thread.context_mask = context_mask;
    // A signal handler in between believes what is there once it sees the generation.
    __atomic_signal_fence(__ATOMIC_RELEASE);
    thread.generation = generation;
    // Last: a signal handler's event in between must not go straight.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread.straight_to = channel.has_rseq ? &channel : nullptr;
    errno = saved_errno;
}

}  // namespace leat::tracer
