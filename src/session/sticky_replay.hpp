#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "session/trace.hpp"
#include "wire/app/control_format.hpp"

namespace leat::session {

// A program whose sticky values are to be recorded again, and what its tracepoints do.
struct StickyProgram {
    UniqueFd control;  // its control file
    wire::ControlLayout layout;
    std::string name;  // for messages
    pid_t vpid;
    std::string procname;
    std::map<std::uint32_t, std::vector<wire::Action>> orders{};  // by tracepoint
};

struct Replayed {
    std::uint64_t records = 0;
    std::uint64_t not_kept = 0;  // by the program, so far
    std::uint64_t refused = 0;   // they are not what the events' fields say
};

// Writes the last values of a program's sticky events as event records, on its behalf, into the rings of the channels
// that its orders name; see docs/formats/sticky-values.md. They are in the trace, or discarded there and counted. The
// thread that drains the rings, as `drain` does.
Result<Replayed> replay_sticky_values(const Trace& trace, const std::function<void()>& drain,
                                      const StickyProgram& program);

}  // namespace leat::session
