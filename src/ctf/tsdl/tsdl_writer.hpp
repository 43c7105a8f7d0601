// TSDL text of the type model: what `metadata` files hold ([CTF-1.8], section 7).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::ctf {

// The first line of every metadata file in plain text. Readers refuse a file without it.
inline constexpr char kTsdlSignature[] = "/* CTF 1.8 */\n";

// The blocks `trace`, `env` and `clock`, and the `stream` blocks without their events. The text ends with a newline and
// is one metadata unit, like that of event_block().
std::string trace_blocks(const TraceClass& trace_class);

// One `event` block. Member names are written as they are: see StructMember.
std::string event_block(const EventClass& event_class, std::uint64_t stream_id);

// The same text with another offset of its first clock, in the room of the one before: all other bytes stay where they
// are, so that readers who have read a part of the text can go on in this one. An error if this is no text of
// trace_blocks().
Result<std::string> with_clock_offset(std::string_view text, std::uint64_t offset);

}  // namespace leat::ctf
