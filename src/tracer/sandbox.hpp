// Whether the process has restricted its own system calls (seccomp). Its filter knows what the program calls, and not
// what we call: one that kills would end at its exit() or fork() a program that nobody traces. So then we call nothing
// there.
#pragma once

#include "leat/abi.h"

namespace leat::tracer {

// Of this process or of one that it is a child of. What has a filter from the start, as in containers, is not known:
// such filters let programs of all kinds live. Any thread; async-signal-safe.
bool is_sandboxed();

}  // namespace leat::tracer

extern "C" {

// For those of ours that are interposed: some thread has a filter from now on. Any thread; async-signal-safe.
LEAT_EXPORT void leat_sandbox_begins();
}
