#include "tracer/control_memory.hpp"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring/ring_format.hpp"
#include "tracer/description_writer.hpp"
#include "wire/app/app_protocol.hpp"
#include "wire/app/description_format.hpp"

namespace leat::tracer {
namespace {

using ring::kPageSize;

// Under the RegistrationLock.
ControlMemory* unused_memories = nullptr;
// Grows only, so that anybody may walk it at any time.
ControlMemory* all_memories = nullptr;

uint64_t round_to_pages(uint64_t size) { return (size + kPageSize - 1) / kPageSize * kPageSize; }

// A file that is larger than the process may write ends it with SIGXFSZ.
bool may_have_files_of(uint64_t size) {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur);
}

// Sealed later, when it has its size.
int make_file(uint64_t size) {
    if (!may_have_files_of(size)) return -1;
    const int fd = memfd_create("leat-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    if (ftruncate(fd, static_cast<off_t>(size)) == 0) return fd;
    close(fd);
    return -1;
}

// A page of ours, which nobody else sees, and space for the file:
//
//     | ControlMemory | header | entries | descriptions | more actions |
//     | private       | file ...                                       |
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

void describe_process(wire::ControlFileHeader& header) {
    header.magic = wire::kControlMagic;
    header.version = wire::kAppVersion;
    header.bitness = 8 * sizeof(void*);
    header.pid = static_cast<uint32_t>(getpid());
    syscall(SYS_prctl, PR_GET_NAME, header.procname);
}

bool fill(int fd, const wire::ControlLayout& layout, const leat_tracepoint* const* tracepoints) {
    void* mapped = mmap(nullptr, layout.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) return false;
    auto* file = static_cast<char*>(mapped);
    auto& header = *static_cast<wire::ControlFileHeader*>(mapped);
    describe_process(header);
    header.tracepoint_count = static_cast<uint32_t>(layout.tracepoint_count);
    header.descriptions_size = static_cast<uint32_t>(layout.descriptions_size);
    write_description_table(file + layout.descriptions(), layout.descriptions_size, tracepoints,
                            layout.tracepoint_count);
    munmap(mapped, layout.size());
    // Touching a mapping beyond the end of its file is SIGBUS: whoever has the file cannot shorten it.
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

// Of all this, the program writes only the header: what it counts. The header can be written at any time, as a thread
// may be about to count in a memory that is given back meanwhile.
bool map_parts(int fd, uint64_t size, int flags, char* at) {
    constexpr uint64_t kHeader = wire::kControlHeaderSize;
    const int fixed = flags | MAP_FIXED;
    return mmap(at, kHeader, PROT_READ | PROT_WRITE, fixed, fd, 0) != MAP_FAILED &&
           mmap(at + kHeader, size - kHeader, PROT_READ, fixed, fd, fd < 0 ? 0 : static_cast<off_t>(kHeader)) !=
               MAP_FAILED;
}

void give_back_one(ControlMemory& memory) {
    // The words go away with the file. What takes their place reads as 0, which is off.
    (void)map_parts(-1, memory.reserved, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, memory.file);
    memory.tracepoint_count = 0;
    memory.next = unused_memories;
    unused_memories = &memory;
}

}  // namespace

static_assert(wire::kControlHeaderSize == kPageSize);

bool is_too_large(const leat_tracepoint* const* tracepoints, size_t count) {
    return description_table_size(tracepoints, count) > wire::kMaxDescriptionSize;
}

ControlMemory* make_control_memory(const leat_tracepoint* const* tracepoints, size_t count, int& fd) {
    const wire::ControlLayout layout{count, description_table_size(tracepoints, count)};
    fd = make_file(layout.size());
    if (fd < 0) return nullptr;
    ControlMemory* memory = take(layout.size());
    if (memory != nullptr && fill(fd, layout, tracepoints) && map_parts(fd, layout.size(), MAP_SHARED, memory->file)) {
        memory->next = nullptr;
        memory->descriptions_size = layout.descriptions_size;
        memory->tracepoint_count = layout.tracepoint_count;
        return memory;
    }
    if (memory != nullptr) give_back_one(*memory);
    close(fd);
    fd = -1;
    return nullptr;
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
        const char* const first = memory->file + wire::kControlHeaderSize;
        if (at < first || at >= first + memory->tracepoint_count * sizeof(wire::ControlEntry)) continue;
        return {memory, static_cast<uint64_t>(at - first) / sizeof(wire::ControlEntry)};
    }
    return {nullptr, 0};
}

}  // namespace leat::tracer
