// One exchange with the daemon: here are our tracepoints; what shall we write?
#pragma once

#include <stdint.h>

namespace leat::tracer {

// Registers the tracepoints of this control memory, attaches the channels that the daemon names, and waits until it
// says "registration done": by then it has switched the tracepoints. Waits no longer than LEAT_REGISTER_TIMEOUT (ms;
// default 3000, 0: not at all, -1: for ever), and once in the life of the process: a daemon that did not answer is not
// asked again. Without a daemon, if it is neither root nor our own user, or when anything goes wrong, nothing is
// attached. Under the RegistrationLock; not async-signal-safe.
void register_with_daemon(int control_fd);

// Tells the daemon that this process has a module of another ABI version, whose tracepoints are not recorded. Waits as
// register_with_daemon() does, under the same conditions.
void report_refused_module(uint32_t module_abi);

// A daemon may be there: its runtime directory is named in the environment (which setuid programs ignore).
bool has_daemon();

}  // namespace leat::tracer
