// Describes the traces that we write, apart from their events.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "ctf/model/trace_class.hpp"
#include "ring/event_header.hpp"

namespace leat::session {

// A fresh random UUID, this host's name, CLOCK_MONOTONIC and its distance to the Unix epoch, two stream classes with
// the header and the contexts (wire::kContext... bits) of the channel. A packet of a CPU's ring carries "cpu_id". One
// of a thread's ring may come from any CPU, and carries the number of that ring, "thread_ring".
ctf::TraceClass describe_trace(const std::string& session_name, uid_t uid, ring::HeaderKind header,
                               std::uint32_t contexts);

// The name of this host, as traces carry it.
std::string host_name();

}  // namespace leat::session
