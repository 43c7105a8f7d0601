// A program or library is loaded: its tracepoints become known to the daemon and are switched on as it says.
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "leat/abi.h"
#include "tracer/channel.hpp"
#include "tracer/control_memory.hpp"
#include "tracer/control_renewal.hpp"
#include "tracer/daemon_directory.hpp"
#include "tracer/daemon_link.hpp"
#include "tracer/process_page.hpp"
#include "tracer/room_wait.hpp"
#include "tracer/sandbox.hpp"
#include "tracer/thread_state.hpp"

namespace leat::tracer {
namespace {

// Anonymous memory, not malloc's: malloc may itself be what is traced, or not be ready yet. nullptr: there is none.
void* map_memory(size_t size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

// Of a tracepoint that is about to get its own.
const uint32_t no_word = 0;

// A tracepoint's word, and what its sites do meanwhile:
//
//     not registered    &off                       skip
//     registered        in control memory: 0       skip
//     switched on       in control memory: not 0   write, as the actions beside it say
//     unloading         &off                       skip. A site that is on its way finds a word of 0, or of before; in
//     the
//                                                  latter case its event is from before
//
// Puts each tracepoint once into `tracepoints`; the module's list may name one twice, and the word marks those that
// were seen. Returns their number.
size_t collect(const leat_module& module, leat_tracepoint** tracepoints) {
    size_t count = 0;
    for (leat_tracepoint* const* entry = module.begin; entry != module.end; ++entry) {
        leat_tracepoint* tracepoint = *entry;
        if (tracepoint == nullptr || tracepoint->word != &tracepoint->off) continue;
        tracepoint->word = &no_word;
        tracepoints[count++] = tracepoint;
    }
    return count;
}

// From here on, whoever has the memory switches them.
void point_into(const ControlMemory& memory, leat_tracepoint* const* tracepoints, size_t count) {
    for (size_t i = 0; i < count; ++i) __atomic_store_n(&tracepoints[i]->word, &memory.entry(i).word, __ATOMIC_RELEASE);
}

// Registers the tracepoints; those that are too many for one daemon to read go in parts.
void register_tracepoints(leat_module& module, leat_tracepoint* const* tracepoints, size_t count) {
    if (count > 1 && is_too_large(tracepoints, count)) {
        register_tracepoints(module, tracepoints, count / 2);
        return register_tracepoints(module, tracepoints + count / 2, count - count / 2);
    }
    int fd = -1;
    ControlMemory* const memory =
        is_too_large(tracepoints, count) ? nullptr : make_control_memory(tracepoints, count, has_recorder(), fd);
    if (memory == nullptr && count != 0) note_unreachable();
    if (memory == nullptr) return;
    memory->next = static_cast<ControlMemory*>(module.registration);
    module.registration = memory;
    point_into(*memory, tracepoints, count);
    register_with_daemons(*memory, fd);
    if (fd >= 0) syscall(SYS_close, fd);  // libc's is a cancellation point: a thread would end with the lock
}

void register_module(leat_module& module) {
    const auto capacity = static_cast<size_t>(module.end - module.begin);
    if (capacity == 0) return;
    void* memory = map_memory(capacity * sizeof(leat_tracepoint*));
    if (memory == nullptr) return;
    auto** tracepoints = static_cast<leat_tracepoint**>(memory);
    register_tracepoints(module, tracepoints, collect(module, tracepoints));
    munmap(memory, capacity * sizeof(leat_tracepoint*));
}

// Once in the life of a process: each of a module's translation units comes with it.
void refuse(const leat_module& module) {
    static bool has_refused = false;
    if (!has_refused) report_refused_module(module.abi_version);
    has_refused = true;
}

// What events may need that ask for channels, and children. Once, as other threads may look at what is found.
void prepare_once() {
    static bool is_prepared = false;
    if (is_prepared) return;
    is_prepared = true;
    find_daemons();
    prepare_attaching();
    prepare_blocking();
    watch_forks();
}

void switch_off(const leat_module& module) {
    for (leat_tracepoint* const* entry = module.begin; entry != module.end; ++entry)
        if (*entry != nullptr) __atomic_store_n(&(*entry)->word, &(*entry)->off, __ATOMIC_RELEASE);
}

// Without a system call: the end of the process does the rest, also of a library that is unloaded before, as nothing
// tells the two apart. Not in a child of vfork, whose memory is its parent's.
void leave(leat_module& module) {
    if (thread_state.is_shared != 0) return;
    switch_off(module);
    leave_behind(static_cast<ControlMemory*>(module.registration));
    module.registration = nullptr;
    module.is_registered = 0;
}

}  // namespace
}  // namespace leat::tracer

using namespace leat::tracer;

void leat_module_load(leat_module* module) {
    // The other: a signal handler loads a library, and has interrupted a thread that is doing so.
    if (module->is_registered != 0 || RegistrationLock::is_ours()) return;
    const int saved_errno = errno;
    make_process_page();
    {
        const RegistrationLock lock;
        prepare_once();
        if (module->abi_version == LEAT_ABI_VERSION) {
            module->is_registered = 1;
            register_module(*module);
        } else {
            refuse(*module);
        }
    }
    errno = saved_errno;
}

void leat_module_unload(leat_module* module) {
    if (module->is_registered == 0) return;
    if (is_sandboxed()) return leave(*module);
    // A guest that cannot execute, and ends by exit(), runs destructors in its parent's memory.
    if (is_guest()) return;
    // A signal handler ends the process, and has interrupted setuid() or a thread that loads a library.
    if (RegistrationLock::is_ours()) return mark_all_ended();
    const int saved_errno = errno;
    {
        const RegistrationLock lock;
        switch_off(*module);
        give_back(static_cast<ControlMemory*>(module->registration));
        module->registration = nullptr;
        module->is_registered = 0;
    }
    errno = saved_errno;
}
