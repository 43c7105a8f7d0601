// What libleat-capture asks of libleat: a program records itself, as its own daemon, in the recorder's lane.
#pragma once

#include <stdint.h>

#include "leat/abi.h"

extern "C" {

// One capture at a time has the lane. False: another one has it, or a recorder has started this program.
LEAT_EXPORT bool leat_capture_begin();
LEAT_EXPORT void leat_capture_end();
// A child of fork() gives back what it has of its parent's channels, unless it has begun a capture of its own.
LEAT_EXPORT void leat_capture_leave();

// Another number when control memory has come or gone since. Never waits.
LEAT_EXPORT uint32_t leat_capture_control_changes();
// Calls back with the file of each control memory of this process, and with NULL for each that has none, or
// module that has no memory.
LEAT_EXPORT void leat_capture_control_files(void (*found)(const char* path, void* context), void* context);

// Attaches a channel of that lane: a wire::ChannelMessage, and names of application contexts or NULL. Descriptors stay
// the caller's.
LEAT_EXPORT bool leat_capture_attach(const void* message, const void* names, int ring_set_fd, int clock_fd);
// Its memory goes back. Nobody writes there any more, once all tracepoints are switched off.
LEAT_EXPORT void leat_capture_detach(uint32_t channel);

// Of the process, not of those that it has come from by fork(). Makes no system call but in a new child.
LEAT_EXPORT uint32_t leat_capture_process();
}

namespace leat::tracer {

// Whether the recorder's lane is that of a capture, or was: then it is not for our children.
bool captures_itself();

// Whether the lane is that of a capture, and not of this process's own. A child may share its parent's control file, so
// what is switched on there is not for it. Any thread; async-signal-safe.
bool is_captured_elsewhere(uint32_t lane);

}  // namespace leat::tracer
