// Turns an application's description of a tracepoint into an event class.
#pragma once

#include "ctf/model/trace_class.hpp"
#include "wire/app/description_reader.hpp"

namespace leat::session {

// The id is left to the registry. Field names get the underscore that keeps them from being keywords ([CTF-1.8]), or
// what else makes all readers show them as the program wrote them. Fails where no name does that.
Result<ctf::EventClass> event_class_of(const wire::TracepointDescription& tracepoint);

}  // namespace leat::session
