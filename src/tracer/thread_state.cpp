#include "tracer/thread_state.hpp"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring/clock.hpp"
#include "tracer/channel.hpp"
#include "tracer/process_page.hpp"
#include "tracer/thread_identity.hpp"

namespace leat::tracer {

constinit thread_local __attribute__((tls_model("initial-exec"))) ThreadState thread_state{};

ContextBlock make_contexts(uint32_t context_mask, const Task& task) {
    const int saved_errno = errno;
    char name[wire::kProcnameSize] = {};
    syscall(SYS_prctl, PR_GET_NAME, name);
    errno = saved_errno;

    char contexts[kContextBlockSize];
    ContextBlock block{};
    const auto append = [&](uint32_t context, const void* value, uint32_t value_size) {
        if ((context_mask & context) == 0) return;
        memcpy(contexts + block.size, value, value_size);
        block.size += value_size;
    };
    append(wire::kContextVpid, &task.pid, sizeof task.pid);
    append(wire::kContextVtid, &task.tid, sizeof task.tid);
    append(wire::kContextProcname, name, sizeof name);
    memcpy(block.bytes + kContextBlockSize - block.size, contexts, block.size);
    return block;
}

void refresh_thread_state(const Channel& channel, const Task& task, uint64_t now) {
    ThreadState& thread = thread_state;
    const uint32_t generation = process_generation();
    const ContextBlock contexts = make_contexts(channel.contexts, task);
    // Until all is filled in, a signal handler's event must not go straight. It may come between any two of these
    // lines; its own turn through here fills in the same, for the same task. The fences are for the compiler alone.
    thread.straight_to = nullptr;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    // In a child, the ring is still the parent's. The same thread with other contexts keeps it.
    if (thread.generation != generation || thread.tid != task.tid) {
        thread.ring = nullptr;
        thread.claim_again = 0;
    }
    thread.tid = task.tid;
    thread.contexts = contexts;
    thread.context_mask = channel.contexts;
    thread.refreshed = now;
    // A signal handler in between believes what is there once it sees the generation.
    __atomic_signal_fence(__ATOMIC_RELEASE);
    thread.generation = generation;
}

// Without the TSC, the time is read before the sequence; where threads may be shared, somebody asks first.
void go_straight_if_possible(const Channel& channel) {
    ThreadState& thread = thread_state;
    const bool is_possible =
        channel.has_rseq && channel.sees_vforks && thread.is_shared == 0 && ring::uses_tsc(*channel.map.clock);
    // After all that was filled in: a signal handler may come here.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread.straight_to = is_possible ? &channel : nullptr;
}

}  // namespace leat::tracer
