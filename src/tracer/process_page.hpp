// What must not survive a fork: a page that the kernel wipes in every child, however it was made.
#pragma once

#include <stdint.h>

namespace leat::tracer {

inline constexpr uint32_t kStagingBuffers = 16;

// All zero in a new child (MADV_WIPEONFORK): that is how we learn of a fork, whether fork(), clone() or a bare system
// call made it, and how locks and loans that another thread of the parent held do not stay for ever.
struct ProcessPage {
    uint64_t generation;  // of the process, in the upper half; 0: a child that nobody has looked at yet
    int32_t pid;          // of the process; 0: likewise
    uint32_t registration_lock;
    uint32_t staging_is_lent[kStagingBuffers];
};

inline constexpr unsigned kGenerationShift = 32;

// Never null; the same for the life of the process image. (Hidden, so that the fast path does not look up where it is.)
extern __attribute__((visibility("hidden"))) ProcessPage* process_page;

// Maps the page. Called once, before anything else here; does nothing when called again.
void make_process_page();

// The generation of this process, never 0; a new one in a new child. Any thread; async-signal-safe.
uint32_t process_generation();

// Lets every thread of this process look at itself anew. Any thread; async-signal-safe.
void begin_new_generation();

// The process that this memory belongs to, as opposed to a child of vfork() that runs in it meanwhile. Any thread;
// async-signal-safe.
int32_t process_pid();

// Held while modules are added, removed or registered with the daemon.
class RegistrationLock {
  public:
    RegistrationLock();
    ~RegistrationLock();
    RegistrationLock(const RegistrationLock&) = delete;
    RegistrationLock& operator=(const RegistrationLock&) = delete;
};

}  // namespace leat::tracer
