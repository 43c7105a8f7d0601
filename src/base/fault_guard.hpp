#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/result.hpp"

namespace leat {

// While it lives, a range of memory that is mapped from a file cannot kill us: whoever touches it where the file has
// become shorter, or where the disk has no room for its page, finds zeros there, and what is lost is marked.
//
//     the file     | page | page | page |              somebody cuts it off here:  | page |
//     the range    | part 0             | part 1 ...                               | page | zeros ...  part 0 was lost
//
// The zeros are ours alone. From the touched page to the end of its part nothing is of the file any more.
//
// The first guard installs a handler of SIGBUS for the process, for good. A fault elsewhere goes to who had the signal
// before: usually it ends the process. Threads must not block the signal.
class FaultGuard {
  public:
    FaultGuard() = default;
    // Of parts of equal size, which are lost one by one; by default it is one part. Fails if there are too many guards.
    static Result<FaultGuard> of(const void* address, std::size_t size, std::size_t part_size = ~std::size_t{0});
    FaultGuard(FaultGuard&& other) noexcept : slot_(std::exchange(other.slot_, kNone)), lost_(std::move(other.lost_)) {}
    FaultGuard& operator=(FaultGuard&& other) noexcept {
        std::swap(slot_, other.slot_);
        std::swap(lost_, other.lost_);
        return *this;
    }
    FaultGuard(const FaultGuard&) = delete;
    FaultGuard& operator=(const FaultGuard&) = delete;
    // Nobody touches the range any more.
    ~FaultGuard();

    // Of a part: becomes true before anybody reads a zero there; lives as long as the guard. Null: nothing is guarded.
    [[nodiscard]] const std::atomic<bool>* lost(std::size_t part = 0) const { return lost_ ? &lost_[part] : nullptr; }
    [[nodiscard]] bool was_lost(std::size_t part = 0) const { return lost_ && lost_[part]; }

    // For who had EFAULT of a system call, which tells no handler: touches all pages of these bytes if they begin in a
    // guarded range, so that the call will find zeros. False: they do not.
    static bool touch(std::span<const std::byte> bytes);

  private:
    static constexpr std::size_t kNone = ~std::size_t{0};

    std::size_t slot_ = kNone;
    std::unique_ptr<std::atomic<bool>[]> lost_{};  // NOLINT(*-avoid-c-arrays): of atomics there is no vector
};

}  // namespace leat
