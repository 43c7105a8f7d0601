// What the traces that we write say of themselves, apart from their events.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "ctf/model/trace_class.hpp"
#include "ctf/record/record_walker.hpp"
#include "ring/event_header.hpp"

namespace leat::session {

// A fresh random UUID, this host's name, CLOCK_MONOTONIC and its distance to the Unix epoch, two stream classes with
// the header and the contexts (wire::kContext... bits) of the channel: a packet of a CPU's ring tells which, "cpu_id";
// one of a thread's ring tells which of those rings, "thread_ring", as it may come from any CPU.
ctf::TraceClass describe_trace(const std::string& session_name, uid_t uid, ring::HeaderKind header,
                               std::uint32_t contexts);

ctf::RecordHeaderLayout record_header_layout(ring::HeaderKind header);

// As the traces name it.
std::string host_name();

// Bytes of the contexts in each record.
std::size_t context_size(std::uint32_t contexts);

}  // namespace leat::session
