// Control files of a process that has become another one: a child of fork(), or a process with another user. See
// docs/formats/runtime-directory.md, "Children". The tracepoints' words stay where they are: the new file is mapped in
// place of the former one.
#pragma once

namespace leat::tracer {

// From now on, each child of fork() makes files of its own. Once; under the RegistrationLock.
void watch_forks();

// In a child of fork(), which has no other threads yet. What cannot have a file of its own goes on with the parent's.
// Async-signal-safe; preserves errno.
void renew_in_child();

// If the effective user has changed, what daemons have switched on is off for the new one, and its files are in its own
// directory. Waits for daemons as at a start. Several libraries may notice one change: the first does it. Any thread;
// async-signal-safe; preserves errno.
void renew_for_user();

// A child that has control memory of its parent has its own now, if there is a place for the file. Any thread, but not
// in a signal handler; changes errno.
void renew_for_capture();

}  // namespace leat::tracer
