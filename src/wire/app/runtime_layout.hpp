// Where programs and session daemons find each other: docs/formats/runtime-directory.md.
//
// Freestanding, because the tracer library includes this.
#pragma once

namespace leat::wire {

// Names another place for all of this.
inline constexpr char kRuntimeDirectoryVariable[] = "LEAT_RUNTIME_DIR";
// Names the directory of the recorder that has started the program.
inline constexpr char kRecorderDirectoryVariable[] = "LEAT_RECORDER_DIR";

// Application directories are called PARENT/leat-UID.
inline constexpr char kAppDirectoryParent[] = "/dev/shm";
inline constexpr char kAppDirectoryParentBelow[] = "apps";  // of LEAT_RUNTIME_DIR
inline constexpr char kAppDirectoryPrefix[] = "leat-";
inline constexpr char kSystemDirectory[] = "/run/leat";  // of root's daemon

// Control files: 16 hexadecimal digits and one of these.
inline constexpr char kNewControlFile[] = ".new";
inline constexpr char kControlFile[] = ".app";
inline constexpr unsigned kControlFileDigits = 16;
// A control file that is being made has no lock for a moment, in which nobody may take it for a dead program's. So one
// that is new is left alone if it was `written` (its mtime, s, whatever that says) within about a second of `now`.
constexpr bool may_be_in_the_making(long long written, long long now) { return written > now - 2 && written < now + 2; }

// There too: programs have waited in vain for root's daemon, or for their user's; or for the one after it.
inline constexpr char kDeafSystemName[] = "deaf-system";
inline constexpr char kDeafUserName[] = "deaf-user";
inline constexpr char kGoneSystemName[] = "gone-system";
inline constexpr char kGoneUserName[] = "gone-user";

// In the directory of a daemon.
inline constexpr char kAppSocketName[] = "app.sock";
inline constexpr char kControlSocketName[] = "control.sock";
inline constexpr char kKeeperSocketName[] = "keeper.sock";
inline constexpr char kSessionsName[] = "sessions";
inline constexpr char kActiveName[] = "active";
inline constexpr char kLockName[] = "lock";

}  // namespace leat::wire
