// Whether this process may use restartable sequences.
#pragma once

#include <cstddef>
#include <cstdint>

// glibc >= 2.35
extern "C" {
extern const std::ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace leat::test {

inline bool has_rseq() { return &__rseq_size != nullptr && __rseq_size != 0; }

// An area that the kernel does not know: it does not restart the sequences of whoever uses it, a debugger may step
// through them, and they run on the CPU that the test says.
struct alignas(32) UnknownArea {
    std::uint32_t cpu_id_start = 0;
    std::uint32_t cpu_id = 0;
    std::uint64_t sequence = 0;
};
inline thread_local UnknownArea unknown_area;

// As RingMap::rseq_offset.
inline std::int64_t unknown_area_offset() {
    return reinterpret_cast<char*>(&unknown_area) - static_cast<char*>(__builtin_thread_pointer());  // NOLINT
}

}  // namespace leat::test
