// TSDL text of the type model: what `metadata` files hold (CTF 1.8, section 7).
#pragma once

#include <string>

#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

// The first line of every plain-text metadata file; readers refuse one without it.
inline constexpr char kTsdlSignature[] = "/* CTF 1.8 */\n";

// The blocks `trace`, `env`, `clock` and the `stream` blocks, without the events of the streams.
// Ends with a newline; a whole unit, as event_block's is.
std::string trace_blocks(const TraceClass& trace_class);

// One `event` block. Member names are written as they are: see StructMember.
std::string event_block(const EventClass& event_class, std::uint64_t stream_id);

}  // namespace leat::ctf
