#include "tracer/zero_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace leat::tracer {
namespace {

// Finds, piece by piece, the first character of a value: "NAME: \t value".
class ValueFinder {
  public:
    explicit ValueFinder(const char* name) : name_(name) {}

    // 0: it is not in there.
    char find(const char* text, long size) {
        for (long i = 0; i < size; ++i) {
            const char c = text[i];
            if (name_[matched_] == '\0') {
                if (c != ' ' && c != '\t') return c;
            } else {
                matched_ = c == name_[matched_] ? matched_ + 1 : c == name_[0] ? 1 : 0;
            }
        }
        return 0;
    }

  private:
    const char* name_;
    unsigned matched_ = 0;
};

// Asked first, because a sandbox may kill who calls munlock(), and few programs have a use for it. Of this thread,
// because the first one of the process may have ended. The stack of a signal handler may be small.
bool has_locked_memory() {
    const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC));
    if (fd < 0) return false;
    ValueFinder finder("VmLck:");
    char text[256];
    char found = 0;
    for (long size = 1; size > 0 && found == 0;) {
        size = syscall(SYS_read, fd, text, sizeof text);
        found = finder.find(text, size);
    }
    syscall(SYS_close, fd);
    return found >= '1' && found <= '9';
}

}  // namespace

ZeroMemory::ZeroMemory() : is_any_locked_(has_locked_memory()) {}

// They are made elsewhere and then moved there at once: mmap() over the old mapping would take that away before it
// finds that there is no memory for the new one. After mlockall(MCL_FUTURE), all that is accessible comes into memory,
// and stays.
//
// Piece by piece, because that takes address space for a piece more. They grow together.
bool ZeroMemory::replace(void* mapping, uint64_t size, bool is_writable) const {
    constexpr uint64_t kPiece = 1U << 20;
    auto* at = static_cast<char*>(mapping);
    for (uint64_t done = 0; done < size; done += kPiece)
        if (!replace_piece(at + done, size - done < kPiece ? size - done : kPiece, is_writable)) return false;
    return true;
}

bool ZeroMemory::replace_piece(void* mapping, uint64_t size, bool is_writable) const {
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
