#include "tracer/thread_identity.hpp"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/process_page.hpp"
#include "tracer/thread_state.hpp"

// vfork_x86_64.S: by this name, no other library comes in between. It may not be there.
extern "C" __attribute__((weak, visibility("hidden"))) pid_t leat_own_vfork(void);

namespace leat::tracer {
namespace {

// [linux-rseq]. glibc registers 32 bytes, later versions as many as the kernel knows.
constexpr int kUnregister = 1;
constexpr uint32_t kSmallestArea = 32;
constexpr uint32_t kLargestArea = 256;
constexpr uint32_t kWrongSignature = 0;
constexpr uint32_t kWrongSize = 8;

bool is_refused(int64_t rseq_offset, uint32_t area_size) {
    char* area = static_cast<char*>(__builtin_thread_pointer()) + rseq_offset;
    return syscall(SYS_rseq, area, area_size, kUnregister, kWrongSignature) != 0 && errno == EPERM;
}

// Asks to unregister the area with a wrong signature, which the kernel refuses with EPERM if the area is this task's. A
// system call filter (seccomp) may say EPERM to everything: then also to a size that the kernel finds invalid.
bool is_registered(int64_t rseq_offset, uint32_t area_size) {
    return is_refused(rseq_offset, area_size) && !is_refused(rseq_offset, kWrongSize);
}

}  // namespace

// A program may have two copies of libleat, each with a thread state of its own: then it calls the vfork of one.
bool sees_vforks() { return &leat_own_vfork != nullptr && &vfork == &leat_own_vfork; }

uint32_t registered_area_size(int64_t rseq_offset) {
    const int saved_errno = errno;
    uint32_t size = kSmallestArea;
    while (size <= kLargestArea && !is_registered(rseq_offset, size)) size += sizeof(uint64_t);
    errno = saved_errno;
    return size <= kLargestArea ? size : 0;
}

Task running_task(const Channel& channel) {
    const int saved_errno = errno;
    Task task{.pid = static_cast<int32_t>(syscall(SYS_getpid)),
              .tid = static_cast<int32_t>(syscall(SYS_gettid)),
              .owns_thread = false};
    const ThreadState& thread = thread_state;
    // In a new PID namespace, a child and its parent may both be 1; a filter may tell nobody his number.
    const bool is_known = thread.generation == process_generation() && thread.tid == task.tid && task.tid > 1;
    if (channel.has_rseq)
        task.owns_thread = is_known || is_registered(channel.map.rseq_offset, channel.rseq_area_size);
    else
        task.owns_thread = thread.is_shared == 0 && task.pid == process_pid();
    errno = saved_errno;
    return task;
}

}  // namespace leat::tracer
