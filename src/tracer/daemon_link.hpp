// One exchange with each daemon: here are our tracepoints; what shall we write?
#pragma once

#include <stdint.h>

namespace leat::tracer {

struct ControlMemory;

// Registers the tracepoints of this control memory with the recorder, if there is one, and, if daemons can find the
// memory, with those of root and of our user that have a session. Attaches the channels that they name, and waits until
// each says "registration done": by then it has switched the tracepoints. Waits for all together no longer than
// LEAT_REGISTER_TIMEOUT (ms; default 3000, 0: not at all, -1: for ever), and once in the life of the process: a daemon
// that did not answer is not asked again. Nor do other programs of the user wait for a daemon that left one of them
// without an answer, until it has answered somebody, or for a minute: a script with a thousand commands is not held up
// a thousand times. Without a daemon, if it is neither root nor our own user, or when anything goes wrong, nothing is
// attached. Under the RegistrationLock; not async-signal-safe.
void register_with_daemons(const ControlMemory& memory, int control_fd);

// The same for memory whose file is a new one: the recorder knows what it needs, and is not asked.
void register_again(const ControlMemory& memory, int control_fd);

// Tells the same daemons that this process has a module of another ABI version, whose tracepoints are not recorded.
// Waits as register_with_daemons() does, under the same conditions.
void report_refused_module(uint32_t module_abi);

}  // namespace leat::tracer
