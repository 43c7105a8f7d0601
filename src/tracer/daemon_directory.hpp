// Where the daemons listen that may trace this process: docs/formats/runtime-directory.md.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>

#include "wire/app/control_format.hpp"

namespace leat::tracer {

// Takes over what the environment says. The environment may change under threads that look at it, and a signal handler
// must not: so everything else here goes by what was found. Not async-signal-safe; under the RegistrationLock.
void find_daemons();

// A recorder has started this program: its directory is named in the environment (which setuid programs ignore).
bool has_recorder();

// The address of a lane's app.sock. False: there can be no such daemon, or its directory is not there, or somebody else
// could put a socket of theirs there. Any thread; async-signal-safe; changes errno.
bool trusted_address(wire::Lane lane, sockaddr_un& address);

// Whether that daemon has a session, and lives, or was killed not long ago. Nobody else can make it look so: the lock
// takes the right to write. Any thread; async-signal-safe; changes errno.
bool is_active(wire::Lane lane);

// When an active daemon has last answered somebody, by the file system's clock; 0: there is no such daemon.
timespec last_answer(wire::Lane lane);
bool is_equal(const timespec& left, const timespec& right);
// Why programs wait in vain.
enum class Silence {
    kDeaf,  // the daemon does not answer
    kGone,  // it was killed, and there is no other one
};
// Whether a program of this user has waited in vain, not long ago, for the answer that would come after that one; or,
// if the daemon is gone, whether programs have done so for a while. Not for the recorder. No cancellation point, as all
// of these.
bool is_known(Silence silence, wire::Lane lane, const timespec& last);
// Says so to those that start next, if there has been no answer since.
void note(Silence silence, wire::Lane lane, const timespec& last);

// How long to wait for daemons at a start: LEAT_REGISTER_TIMEOUT, in ms; -1: for ever.
int64_t register_timeout_ms();

}  // namespace leat::tracer
