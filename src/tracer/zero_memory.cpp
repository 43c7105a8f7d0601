#include "tracer/zero_memory.hpp"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace leat::tracer {
namespace {

// Asked first, because a sandbox may kill who calls munlock(), and few programs have a use for it.
bool has_locked_memory() {
    static constexpr char kName[] = "VmLck:";
    const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC));
    if (fd < 0) return false;
    char text[4096];
    const long size = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    if (size <= 0) return false;
    text[size] = '\0';
    const char* at = strstr(text, kName);
    if (at == nullptr) return false;
    at += sizeof kName - 1;
    at += strspn(at, " \t");
    return *at >= '1' && *at <= '9';
}

}  // namespace

ZeroMemory::ZeroMemory() : is_any_locked_(has_locked_memory()) {}

// They are made elsewhere and then moved there at once: mmap() over the old mapping would take that away before it
// finds that there is no memory for the new one. After mlockall(MCL_FUTURE), all that is accessible comes into memory,
// and stays.
bool ZeroMemory::replace(void* mapping, uint64_t size, bool is_writable) const {
    void* const made = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return false;
    if (is_any_locked_) (void)munlock(made, size);
    const int protection = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
    if (mprotect(made, size, protection) == 0 &&
        mremap(made, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, mapping) != MAP_FAILED)
        return true;
    munmap(made, size);
    return false;
}

}  // namespace leat::tracer
