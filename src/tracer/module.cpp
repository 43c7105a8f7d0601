// A program or library is loaded: its tracepoints become known to the daemon and are switched on as it says.
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "leat/abi.h"
#include "tracer/channel.hpp"
#include "tracer/daemon_link.hpp"
#include "tracer/description_writer.hpp"
#include "tracer/process_page.hpp"

namespace leat::tracer {
namespace {

// Anonymous memory, not malloc's: malloc may itself be what is traced, or not be ready yet. nullptr: there is none.
void* map_memory(size_t size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

// Bindings are never unmapped: while a process exits, other threads may still be between their test and their record.
// They must find in them what was there. Those of an unloaded library serve the next one that is loaded.
struct BindingBlock {
    BindingBlock* next_unused;
    size_t capacity;
    Binding bindings[];
};
BindingBlock* unused_blocks = nullptr;

BindingBlock* take_bindings(size_t count) {
    for (BindingBlock** link = &unused_blocks; *link != nullptr; link = &(*link)->next_unused) {
        BindingBlock* found = *link;
        if (found->capacity < count) continue;
        *link = found->next_unused;
        memset(static_cast<void*>(found->bindings), 0, count * sizeof(Binding));
        return found;
    }
    auto* block = static_cast<BindingBlock*>(map_memory(sizeof(BindingBlock) + count * sizeof(Binding)));
    if (block != nullptr) block->capacity = count;
    return block;
}

void give_back_bindings(void* bindings) {
    if (bindings == nullptr) return;
    auto* block = static_cast<BindingBlock*>(bindings);
    block->next_unused = unused_blocks;
    unused_blocks = block;
}

// A tracepoint's two words, and what its sites do meanwhile:
//
//     not bound     binding null,  enabled 0     skip
//     bound         binding set,   enabled 0     skip: the binding has no channel yet
//     enabled       binding set,   enabled 1     write
//     unloading     binding set,   enabled 0     skip, also inside the restartable sequence, which looks again
//     unloaded      binding null,  enabled 0     the block of bindings may serve another library
//
// Puts each tracepoint once into `tracepoints`, and binds it; the module's list may name one twice. Returns their
// number.
size_t collect(const leat_module& module, leat_tracepoint** tracepoints, Binding* bindings) {
    size_t count = 0;
    for (leat_tracepoint* const* entry = module.begin; entry != module.end; ++entry) {
        leat_tracepoint* tracepoint = *entry;
        if (tracepoint == nullptr || tracepoint->binding != nullptr) continue;
        tracepoints[count] = tracepoint;
        // M: the block is zeroed: no channel, so nothing is written. Pairs with N in leat_write() and its like.
        __atomic_store_n(&tracepoint->binding, &bindings[count], __ATOMIC_RELEASE);
        ++count;
    }
    return count;
}

// The map is whole before the first tracepoint is switched on.
void enable(leat_tracepoint* const* tracepoints, size_t count, const uint32_t* event_ids) {
    for (size_t i = 0; i < count; ++i) {
        if (event_ids[i] == wire::kNotEnabled) continue;
        auto* binding = static_cast<Binding*>(tracepoints[i]->binding);
        binding->header = ring::event_header(process_channel.header_kind, event_ids[i]);
        binding->channel = &process_channel;
        // O: header and channel are there before a site goes on. Pairs with the sites' load (tracepoint.h), which is
        // relaxed, as it is all that a disabled site costs: x86 keeps loads in order.
        __atomic_store_n(&tracepoints[i]->enabled, 1, __ATOMIC_RELEASE);
    }
}

void apply(const Registration& registration, leat_tracepoint* const* tracepoints, size_t count) {
    struct stat status {};
    const int fd = registration.event_ids_fd();
    const size_t size = count * sizeof(uint32_t);
    if (fstat(fd, &status) != 0 || static_cast<size_t>(status.st_size) != size) return;
    const bool is_same_session = process_channel.session_id == registration.message().session_id;
    if (!is_same_session && process_channel.session_id != 0) return;
    if (!is_same_session &&
        !attach_channel(registration.message(), registration.ring_set_fd(), registration.clock_fd()))
        return;
    // Read, not mapped: a file that shrinks would be the end of the program.
    void* event_ids = map_memory(size);
    if (event_ids == nullptr) return;
    if (pread(fd, event_ids, size, 0) == static_cast<ssize_t>(size))
        enable(tracepoints, count, static_cast<const uint32_t*>(event_ids));
    munmap(event_ids, size);
}

// Describes the tracepoints, and switches on what the daemon answers. A table that is too large goes in parts.
void exchange(leat_tracepoint* const* tracepoints, size_t count) {
    const int descriptions_fd = write_descriptions(tracepoints, count);
    if (descriptions_fd < 0) {
        if (count < 2 || !is_too_large(tracepoints, count)) return;
        exchange(tracepoints, count / 2);
        return exchange(tracepoints + count / 2, count - count / 2);
    }
    Registration registration;
    registration.exchange(descriptions_fd);
    close(descriptions_fd);
    if (registration.is_active()) apply(registration, tracepoints, count);
}

void register_with_daemon(leat_module& module) {
    const auto capacity = static_cast<size_t>(module.end - module.begin);
    if (capacity == 0) return;
    void* memory = map_memory(capacity * sizeof(leat_tracepoint*));
    if (memory == nullptr) return;
    auto** tracepoints = static_cast<leat_tracepoint**>(memory);
    BindingBlock* block = take_bindings(capacity);
    module.bindings = block;
    if (block != nullptr) exchange(tracepoints, collect(module, tracepoints, block->bindings));
    munmap(memory, capacity * sizeof(leat_tracepoint*));
}

// Once in the life of a process: each of a module's translation units comes with it.
void refuse(const leat_module& module) {
    static bool has_refused = false;
    if (!has_refused) report_refused_module(module.abi_version);
    has_refused = true;
}

void disable(const leat_module& module) {
    for (leat_tracepoint* const* entry = module.begin; entry != module.end; ++entry) {
        if (*entry == nullptr) continue;
        // The word that sites test goes first: none comes in any more when the binding goes.
        __atomic_store_n(&(*entry)->enabled, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&(*entry)->binding, nullptr, __ATOMIC_RELEASE);
    }
}

}  // namespace
}  // namespace leat::tracer

using namespace leat::tracer;

void leat_module_load(leat_module* module) {
    if (module->is_registered != 0 || !has_daemon()) return;
    const int saved_errno = errno;
    make_process_page();
    {
        const RegistrationLock lock;
        if (module->abi_version == LEAT_ABI_VERSION) {
            module->is_registered = 1;
            register_with_daemon(*module);
        } else {
            refuse(*module);
        }
    }
    errno = saved_errno;
}

void leat_module_unload(leat_module* module) {
    if (module->is_registered == 0) return;
    const int saved_errno = errno;
    {
        const RegistrationLock lock;
        disable(*module);
        give_back_bindings(module->bindings);
        module->bindings = nullptr;
        module->is_registered = 0;
    }
    errno = saved_errno;
}
