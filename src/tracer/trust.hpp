// Whom this process believes: whose daemons it speaks to, and whose files it maps.
#pragma once

#include <sys/types.h>

namespace leat::tracer {

// Of users who may end this process whenever they like (kill(2)): root, and the effective user. Not one that a process
// of root's is for a while, by seteuid(): whoever can shorten a file that it has mapped could end it. Any thread;
// async-signal-safe.
bool is_trusted(uid_t uid);

// Whether the effective user is: if not, the process stays where it is, and makes no files for daemons. Any thread;
// async-signal-safe.
bool is_effective_user_trusted();

}  // namespace leat::tracer
