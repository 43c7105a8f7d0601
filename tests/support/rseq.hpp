// Whether this process may use restartable sequences.
#pragma once

#include <cstddef>

// glibc >= 2.35
extern "C" {
extern const std::ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace leat::test {

inline bool has_rseq() { return &__rseq_size != nullptr && __rseq_size != 0; }

}  // namespace leat::test
