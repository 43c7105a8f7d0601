// Describes the traces that we write, apart from their events.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "ctf/model/trace_class.hpp"
#include "session/trace.hpp"

namespace leat::session {

// A fresh random UUID, this host's name, CLOCK_MONOTONIC and its distance to the Unix epoch; for each channel two
// stream classes with its header and its contexts. A packet of a CPU's ring carries "cpu_id". One of a thread's ring
// may come from any CPU, and carries the number of that ring, "thread_ring".
ctf::TraceClass describe_trace(const Trace::Parameters& parameters, std::span<const Channel> channels);

// What to add to a trace's time to have CLOCK_REALTIME, by now, ns.
std::uint64_t epoch_offset(const std::function<std::uint64_t()>& trace_time);

// The name of this host, as traces carry it.
std::string host_name();

}  // namespace leat::session
