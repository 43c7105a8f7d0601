// What must not survive a fork: a page that the kernel wipes in every child, however it was made.
#pragma once

#include <stdint.h>

#include "ring/ring_format.hpp"

namespace leat::tracer {

inline constexpr uint32_t kStagingBuffers = 16;

// All zero in a new child (MADV_WIPEONFORK): that is how we learn of a fork, whether fork(), clone() or a bare system
// call made it, and how locks and loans that another thread of the parent held do not stay for ever.
struct alignas(ring::kPageSize) ProcessPage {
    uint64_t generation;      // of the process, in the upper half; 0: a child that nobody has looked at yet
    int32_t pid;              // of the process; 0: likewise
    int32_t registering_tid;  // of the thread that has the RegistrationLock; 0: nobody has it
    int32_t attaching_tid;    // likewise, of the AttachLock
    uint32_t number;          // of the process; 0: likewise
    int32_t sticking_tid;     // as registering_tid, of the StickyLock
    uint32_t staging_is_lent[kStagingBuffers];
};

inline constexpr unsigned kGenerationShift = 32;

// (Hidden, and no pointer, so that the fast path does not look up where it is.)
extern __attribute__((visibility("hidden"))) ProcessPage process_page[1];

// From here on, the page is wiped. Called once, before anything else here; does nothing when called again.
void make_process_page();

// The generation of this process, never 0; a new one in a new child. Any thread; async-signal-safe.
uint32_t process_generation();

// Lets every thread of this process look at itself anew. Any thread; async-signal-safe.
void begin_new_generation();

// The process that this memory belongs to, as opposed to a child of vfork() that runs in it meanwhile. Any thread;
// async-signal-safe.
int32_t process_pid();

// Whether the caller is such a child: it has its parent's memory, and nothing to say for it. Any thread;
// async-signal-safe.
bool is_guest();

// Tells what this process has made from what it has from a process that it is a child of: never 0, and another number
// than that of each of those. Any thread; async-signal-safe.
uint32_t process_number();

// Held while modules are added, removed or registered with daemons.
class RegistrationLock {
  public:
    RegistrationLock();
    ~RegistrationLock();
    RegistrationLock(const RegistrationLock&) = delete;
    RegistrationLock& operator=(const RegistrationLock&) = delete;

    // Whether this thread has it, as a signal handler may find. Async-signal-safe.
    static bool is_ours();
};

// Held while a channel is attached: by a thread that registers, or by one whose event goes to a channel that is not
// attached. Nobody waits for it for long.
class AttachLock {
  public:
    // Waits no longer than that (ns); and not at all in a signal handler that has interrupted the holder.
    // Async-signal-safe; not for guests, which might end before they give it back.
    explicit AttachLock(uint64_t patience);
    ~AttachLock();
    AttachLock(const AttachLock&) = delete;
    AttachLock& operator=(const AttachLock&) = delete;

    [[nodiscard]] bool is_held() const { return is_held_; }
    // Whether this thread has it, as a signal handler may find. Async-signal-safe.
    static bool is_ours();

  private:
    int32_t tid_;
    bool is_held_;
};

// Held while a sticky value is written, or the memory that has them is replaced.
class StickyLock {
  public:
    // Waits a while, and not at all in a signal handler that has interrupted the holder. Async-signal-safe.
    StickyLock();
    ~StickyLock();
    StickyLock(const StickyLock&) = delete;
    StickyLock& operator=(const StickyLock&) = delete;

    [[nodiscard]] bool is_held() const { return is_held_; }

  private:
    int32_t tid_;
    bool is_held_;
};

}  // namespace leat::tracer
