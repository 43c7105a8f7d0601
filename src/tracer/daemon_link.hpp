// One exchange with the daemon: here are our tracepoints; what shall we write?
#pragma once

#include <stdint.h>

#include "wire/app/app_protocol.hpp"

namespace leat::tracer {

// The daemon's answer. Owns the descriptors that came with it.
class Registration {
  public:
    Registration() = default;
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    [[nodiscard]] bool is_active() const { return is_active_; }
    [[nodiscard]] const wire::RegistrationDoneMessage& message() const { return message_; }
    [[nodiscard]] int event_ids_fd() const { return fds_[0]; }
    [[nodiscard]] int ring_set_fd() const { return fds_[1]; }
    [[nodiscard]] int clock_fd() const { return fds_[2]; }

    // Registers the tracepoints described in `descriptions_fd` and waits until the daemon says "registration done",
    // but no longer than LEAT_REGISTER_TIMEOUT (ms; default 3000, 0: not at all, -1: for ever), and once in the life of
    // the process: a daemon that did not answer is not asked again. Without a daemon, if it is neither root nor our own
    // user, or when anything goes wrong, is_active() stays false. Under the RegistrationLock; not async-signal-safe.
    void exchange(int descriptions_fd);

  private:
    void receive(int socket);

    wire::RegistrationDoneMessage message_{};
    int fds_[wire::kRegistrationDoneDescriptors] = {-1, -1, -1};
    bool is_active_ = false;
};

// Tells the daemon that this process has a module of another ABI version, whose tracepoints are not recorded. Waits as
// exchange() does, under the same conditions.
void report_refused_module(uint32_t module_abi);

// A daemon may be there: its runtime directory is named in the environment (which setuid programs ignore).
bool has_daemon();

}  // namespace leat::tracer
