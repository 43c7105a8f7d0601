#include "tracer/control_memory.hpp"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring/ring_format.hpp"
#include "tracer/description_writer.hpp"
#include "tracer/descriptors.hpp"
#include "tracer/process_page.hpp"
#include "tracer/ring_owner.hpp"
#include "tracer/room_wait.hpp"
#include "tracer/thread_state.hpp"
#include "tracer/zero_memory.hpp"
#include "wire/app/app_protocol.hpp"
#include "wire/app/description_format.hpp"

namespace leat::tracer {
namespace {

using ring::kPageSize;

// Under the RegistrationLock.
ControlMemory* unused_memories = nullptr;
// Grows only, so that anybody may walk it at any time.
ControlMemory* all_memories = nullptr;

uint32_t path_changes = 0;
uint32_t unreachable = 0;

uint64_t round_to_pages(uint64_t size) { return (size + kPageSize - 1) / kPageSize * kPageSize; }

// Touching a mapping beyond the end of its file is SIGBUS: whoever has the file cannot shorten it. So is touching what
// is not allocated where memory is limited.
int make_memfd(uint64_t allocated, uint64_t size) {
    if (!may_have_files_of(size)) return -1;
    const int fd = beyond_standard(memfd_create("leat-control", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0) return -1;
    if (make_room(fd, allocated, size) && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    syscall(SYS_close, fd);
    return -1;
}

// A page of ours, which nobody else sees, and space for the file:
//
//     | ControlMemory | header | sticky values | entries | descriptions | more actions |
//     | private       | file ...                                                       |
ControlMemory* reserve(uint64_t size) {
    const uint64_t reserved = round_to_pages(size);
    void* space = mmap(nullptr, kPageSize + reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return nullptr;
    if (mprotect(space, kPageSize, PROT_READ | PROT_WRITE) != 0) {
        munmap(space, kPageSize + reserved);
        return nullptr;
    }
    auto* memory = static_cast<ControlMemory*>(space);
    memory->file = static_cast<char*>(space) + kPageSize;
    memory->reserved = reserved;
    memory->next_of_all = all_memories;
    // AA: who sees the memory sees what it says of itself. Pairs with BB in find_place().
    __atomic_store_n(&all_memories, memory, __ATOMIC_RELEASE);
    return memory;
}

ControlMemory* take(uint64_t size) {
    for (ControlMemory** link = &unused_memories; *link != nullptr; link = &(*link)->next) {
        ControlMemory* found = *link;
        if (found->reserved < size) continue;
        *link = found->next;
        return found;
    }
    return reserve(size);
}

bool has_sticky(const leat_tracepoint* const* tracepoints, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if ((tracepoints[i]->flags & LEAT_TRACEPOINT_STICKY) != 0) return true;
    return false;
}

bool fill(int fd, const wire::ControlLayout& layout, const leat_tracepoint* const* tracepoints) {
    void* mapped = mmap(nullptr, layout.more_actions(0), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) return false;
    auto* file = static_cast<char*>(mapped);
    auto& header = *static_cast<wire::ControlFileHeader*>(mapped);
    describe_process(header);
    header.tracepoint_count = static_cast<uint32_t>(layout.tracepoint_count);
    header.descriptions_size = static_cast<uint32_t>(layout.descriptions_size);
    header.sticky_slots = static_cast<uint32_t>(layout.sticky_slots);
    write_description_table(file + layout.descriptions(), layout.descriptions_size, tracepoints,
                            layout.tracepoint_count);
    munmap(mapped, layout.more_actions(0));
    return true;
}

// Of all this, the program writes only the first `written` bytes: what it counts, and sticky values. The header can be
// written at any time, as a thread may be about to count in a memory that is given back meanwhile; sticky values, under
// the StickyLock.
bool map_parts(int fd, uint64_t written, uint64_t size, char* at) {
    const int flags = MAP_SHARED | MAP_FIXED;
    return mmap(at, written, PROT_READ | PROT_WRITE, flags, fd, 0) != MAP_FAILED &&
           mmap(at + written, size - written, PROT_READ, flags, fd, static_cast<off_t>(written)) != MAP_FAILED;
}

void mark_ended(ControlMemory& memory) {
    if (memory.tracepoint_count != 0) __atomic_or_fetch(&memory.header().properties, wire::kEnded, __ATOMIC_RELAXED);
}

// A daemon that is killed and started again learns from the file how many events there were that it could not give
// rings for.
bool has_counted(ControlMemory& memory) {
    if (memory.tracepoint_count == 0) return false;  // nothing has been mapped there
    const uint64_t(&counts)[wire::kLanes] = memory.header().not_attached;
    const auto of = [&counts](wire::Lane lane) {
        return __atomic_load_n(&counts[static_cast<uint32_t>(lane)], __ATOMIC_RELAXED);
    };
    return of(wire::Lane::kSystem) + of(wire::Lane::kUser) != 0;
}

void give_back_one(ControlMemory& memory) {
    if (memory.process == process_number()) mark_ended(memory);
    if (has_counted(memory))
        set_path(memory, nullptr);
    else
        remove_file(memory);
    const StickyLock lock;
    // The words go away with the file.
    replace_by_zeros(memory);
    memory.tracepoint_count = 0;
    memory.sticky_slots = 0;
    memory.next = unused_memories;
    unused_memories = &memory;
}

ControlMemory* make_in(int fd, const wire::ControlLayout& layout, const leat_tracepoint* const* tracepoints) {
    ControlMemory* const memory = take(layout.size());
    if (memory == nullptr) return nullptr;
    if (fill(fd, layout, tracepoints) && map_parts(fd, layout.written_by_program(), layout.size(), memory->file)) {
        memory->next = nullptr;
        memory->process = process_number();
        memory->descriptions_size = layout.descriptions_size;
        memory->sticky_slots = layout.sticky_slots;
        memory->tracepoint_count = layout.tracepoint_count;
        return memory;
    }
    give_back_one(*memory);
    return nullptr;
}

// What is mapped has its blocks, but for further actions: those are read only after a daemon has written them.
ControlMemory* make_in_directory(const wire::ControlLayout& layout, const leat_tracepoint* const* tracepoints,
                                 int& fd) {
    AppFile file;
    if (!file.create(layout.more_actions(0), layout.size())) return nullptr;
    ControlMemory* const memory = make_in(file.fd(), layout, tracepoints);
    if (memory == nullptr) return nullptr;
    if (!file.publish()) {
        give_back_one(*memory);
        return nullptr;
    }
    set_path(*memory, file.path());
    fd = file.take_fd();
    return memory;
}

}  // namespace

static_assert(sizeof(ControlMemory) <= kPageSize);
static_assert(wire::kControlHeaderSize == kPageSize);
static_assert(wire::kStickySlots * sizeof(wire::StickySlot) % kPageSize == 0);

bool is_too_large(const leat_tracepoint* const* tracepoints, size_t count) {
    return description_table_size(tracepoints, count) > wire::kMaxDescriptionSize;
}

ControlMemory* make_control_memory(const leat_tracepoint* const* tracepoints, size_t count, bool has_recorder,
                                   int& fd) {
    const wire::ControlLayout layout{count, description_table_size(tracepoints, count),
                                     has_sticky(tracepoints, count) ? wire::kStickySlots : 0};
    ControlMemory* memory = make_in_directory(layout, tracepoints, fd);
    if (memory != nullptr || !has_recorder) return memory;
    fd = make_memfd(layout.more_actions(0), layout.size());
    if (fd < 0) return nullptr;
    memory = make_in(fd, layout, tracepoints);
    if (memory != nullptr) return memory;
    syscall(SYS_close, fd);
    fd = -1;
    return nullptr;
}

void describe_process(wire::ControlFileHeader& header) {
    header.magic = wire::kControlMagic;
    header.version = wire::kAppVersion;
    header.bitness = 8 * sizeof(void*);
    header.pid = static_cast<uint32_t>(getpid());
    header.pid_namespace = own_pid_namespace();
    header.properties = allows_blocking() ? wire::kAllowsBlocking : 0;
    syscall(SYS_prctl, PR_GET_NAME, header.procname);
}

bool replace_file(const ControlMemory& memory, int fd) {
    return map_parts(fd, memory.layout().written_by_program(), memory.layout().size(), memory.file);
}

void replace_by_zeros(const ControlMemory& memory) {
    const uint64_t written = memory.layout().written_by_program();
    const ZeroMemory zeros;
    (void)zeros.replace(memory.file, written, true);
    (void)zeros.replace(memory.file + written, memory.reserved - written, false);
}

// CC: the path's first byte comes after the others, and after all else: a child of a fork in the middle finds a path
// that is whole, or none. Pairs with DD in control_renewal.cpp.
void set_path(ControlMemory& memory, const char* path) {
    // An exchange, because nothing that follows may come before it.
    (void)__atomic_exchange_n(memory.path, '\0', __ATOMIC_ACQ_REL);
    if (path != nullptr) {
        memcpy(memory.path + 1, path + 1, strlen(path));
        __atomic_store_n(memory.path, path[0], __ATOMIC_RELEASE);
    }
    __atomic_fetch_add(&path_changes, 1, __ATOMIC_RELEASE);
}

void remove_file(ControlMemory& memory) {
    char path[kMaxAppPath];
    memcpy(path, memory.path, sizeof path);
    set_path(memory, nullptr);
    if (path[0] != '\0' && memory.process == process_number()) (void)unlink(path);
}

void note_unreachable() { __atomic_fetch_add(&unreachable, 1, __ATOMIC_RELAXED); }

uint32_t unreachable_modules() { return __atomic_load_n(&unreachable, __ATOMIC_RELAXED); }

uint32_t control_changes() { return __atomic_load_n(&path_changes, __ATOMIC_ACQUIRE); }

void leave_behind(ControlMemory* memories) {
    for (ControlMemory* memory = memories; memory != nullptr; memory = memory->next)
        if (thread_state.is_shared == 0 && memory->process == process_number()) mark_ended(*memory);
}

// Without a system call: the filter of a sandbox may let the process do nothing any more but end.
void mark_all_ended() {
    if (thread_state.is_shared != 0) return;
    for (ControlMemory* memory = first_memory(); memory != nullptr; memory = memory->next_of_all)
        if (memory->process == process_number()) mark_ended(*memory);
}

ControlMemory* first_memory() {
    // BB, as in find_place().
    return __atomic_load_n(&all_memories, __ATOMIC_ACQUIRE);
}

void give_back(ControlMemory* memories) {
    while (memories != nullptr) {
        ControlMemory* const next = memories->next;
        give_back_one(*memories);
        memories = next;
    }
}

ControlPlace find_place(const wire::ControlEntry& entry) {
    const auto* const at = reinterpret_cast<const char*>(&entry);  // NOLINT(*-reinterpret-cast)
    // BB: pairs with AA in reserve().
    const ControlMemory* memory = __atomic_load_n(&all_memories, __ATOMIC_ACQUIRE);
    for (; memory != nullptr; memory = memory->next_of_all) {
        const char* const first = memory->file + memory->layout().entry(0);
        if (at < first || at >= first + memory->tracepoint_count * sizeof(wire::ControlEntry)) continue;
        return {memory, static_cast<uint64_t>(at - first) / sizeof(wire::ControlEntry)};
    }
    return {nullptr, 0};
}

}  // namespace leat::tracer
