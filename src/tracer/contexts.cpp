#include "tracer/contexts.hpp"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/thread_identity.hpp"

namespace leat::tracer {
namespace {

// Where the kernel does not say (a system call filter may forbid it): nobody's.
constexpr uint32_t kNoId = 0xffff'ffff;

// In 32-bit programs, the calls without a number at the end tell ids of 16 bits.
#if defined(SYS_getresuid32)
constexpr long kGetUserIds = SYS_getresuid32;
constexpr long kGetGroupIds = SYS_getresgid32;
#else
constexpr long kGetUserIds = SYS_getresuid;
constexpr long kGetGroupIds = SYS_getresgid;
#endif

constexpr uint32_t kUserContexts[] = {wire::kContextVuid, wire::kContextVeuid, wire::kContextVsuid};
constexpr uint32_t kGroupContexts[] = {wire::kContextVgid, wire::kContextVegid, wire::kContextVsgid};

// `call`: kGetUserIds or kGetGroupIds, of the thread.
void append_ids(RoomyWriter& writer, uint32_t contexts, const uint32_t (&kinds)[3], long call) {
    if ((contexts & (kinds[0] | kinds[1] | kinds[2])) == 0) return;
    uint32_t ids[3];
    if (syscall(call, &ids[0], &ids[1], &ids[2]) != 0) ids[0] = ids[1] = ids[2] = kNoId;
    for (int i = 0; i < 3; ++i)
        if ((contexts & kinds[i]) != 0) writer.append(&ids[i], sizeof ids[i]);
}

struct Namespace {
    uint32_t context;
    const char* link;  // reads NAME:[INODE]
};
constexpr Namespace kNamespaces[] = {
    {wire::kContextCgroupNs, "/proc/thread-self/ns/cgroup"}, {wire::kContextIpcNs, "/proc/thread-self/ns/ipc"},
    {wire::kContextMntNs, "/proc/thread-self/ns/mnt"},       {wire::kContextNetNs, "/proc/thread-self/ns/net"},
    {wire::kContextPidNs, "/proc/thread-self/ns/pid"},       {wire::kContextTimeNs, "/proc/thread-self/ns/time"},
    {wire::kContextUserNs, "/proc/thread-self/ns/user"},     {wire::kContextUtsNs, "/proc/thread-self/ns/uts"},
};

// 0: the kernel has no such namespaces, or there is no /proc.
uint64_t inode_of(const Namespace& kind) {
    char text[64];
    const long size = syscall(SYS_readlinkat, AT_FDCWD, kind.link, text, sizeof text);
    uint64_t inode = 0;
    for (long i = 0; i < size; ++i)
        if (text[i] >= '0' && text[i] <= '9') inode = 10 * inode + static_cast<uint64_t>(text[i] - '0');
    return inode;
}

}  // namespace

// In the order of wire::kContextKinds.
void set_contexts(RoomyWriter& writer, uint32_t contexts, const Task& task) {
    const int saved_errno = errno;
    writer.base.context_size = 0;
    if ((contexts & wire::kContextVpid) != 0) writer.append(&task.pid, sizeof task.pid);
    if ((contexts & wire::kContextVtid) != 0) writer.append(&task.tid, sizeof task.tid);
    if ((contexts & wire::kContextProcname) != 0) {
        char name[wire::kProcnameSize] = {};
        syscall(SYS_prctl, PR_GET_NAME, name);
        writer.append(name, sizeof name);
    }
    if ((contexts & wire::kContextPthreadId) != 0) {
        const uint64_t id = pthread_self();
        writer.append(&id, sizeof id);
    }
    append_ids(writer, contexts, kUserContexts, kGetUserIds);
    append_ids(writer, contexts, kGroupContexts, kGetGroupIds);
    for (const Namespace& kind : kNamespaces) {
        if ((contexts & kind.context) == 0) continue;
        const uint64_t inode = inode_of(kind);
        writer.append(&inode, sizeof inode);
    }
    errno = saved_errno;
}

}  // namespace leat::tracer
