// Zeros in place of memory that other threads may still touch.
#pragma once

#include <stdint.h>

namespace leat::tracer {

// Async-signal-safe; changes errno.
class ZeroMemory {
  public:
    ZeroMemory();

    // Puts zeros where a mapping is, which goes. They take memory only where somebody writes, also in a program that
    // has locked all that it has and will have. False: there is no memory for it, and the mapping stays. In no case is
    // there a hole, not for a moment.
    bool replace(void* mapping, uint64_t size, bool is_writable) const;

  private:
    bool replace_piece(void* mapping, uint64_t size, bool is_writable) const;

    bool is_any_locked_;  // memory of this process
};

}  // namespace leat::tracer
