// TSDL text of the type model: what `metadata` files hold ([CTF-1.8], section 7).
#pragma once

#include <string>

#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

// The first line of every metadata file in plain text. Readers refuse a file without it.
inline constexpr char kTsdlSignature[] = "/* CTF 1.8 */\n";

// The blocks `trace`, `env` and `clock`, and the `stream` blocks without their events. The text ends with a newline and
// is one metadata unit, like that of event_block().
std::string trace_blocks(const TraceClass& trace_class);

// One `event` block. Member names are written as they are: see StructMember.
std::string event_block(const EventClass& event_class, std::uint64_t stream_id);

}  // namespace leat::ctf
