// Advisory locks on the part of a growing file that is not yet safe to read. docs/formats/sync-file.md.
#pragma once

#include <cstdint>

#include "base/result.hpp"

namespace leat::trace {

// The writer's lock: an open-file-description write lock from a position to infinity. The position moves forward as the
// file becomes safe. The lock ends with the descriptor, however the process ends.
//
// On a file system without such locks (some network file systems) the writer works as usual, but readers find no lock
// and take the file for finished.
class MovingLock {
  public:
    MovingLock() = default;
    // Locks from `begin` on. `fd` is open for writing, and outlives the lock.
    MovingLock(int fd, std::uint64_t begin);

    [[nodiscard]] bool is_held() const { return fd_ >= 0; }

    // Declares all bytes before `begin` safe. Never moves back: what is safe stays safe.
    void move_to(std::uint64_t begin);
    // Declares the whole file safe, for a writer that keeps the descriptor.
    void release();

  private:
    int fd_ = -1;  // -1: there is no lock
    std::uint64_t begin_ = 0;
};

// The reader's half. `fd` is open for reading, and is not the writer's.

// Whether somebody writes at, or will write at, any of these bytes.
[[nodiscard]] bool is_write_locked(int fd, std::uint64_t begin, std::uint64_t size);

enum class LockWait : std::uint8_t { kFree, kInterrupted };

// How many bytes at the beginning of the file are safe; UINT64_MAX if nobody writes to it.
[[nodiscard]] std::uint64_t unlocked_size(int fd);

// Sleeps in the kernel until nobody holds a write lock on these bytes any more, or a signal comes.
Result<LockWait> wait_until_unlocked(int fd, std::uint64_t begin, std::uint64_t size);

}  // namespace leat::trace
