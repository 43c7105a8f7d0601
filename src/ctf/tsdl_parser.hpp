#pragma once

#include <string_view>

#include "base/result.hpp"
#include "ctf/trace_class.hpp"

namespace leat::ctf {

// Reads TSDL, the metadata language of CTF 1.8, with the whole of its grammar: what any tracer wrote.
//
// The text may be hostile: memory stays below a few hundred MiB, and recursion below a fixed depth. Errors name the
// line, what was expected and what was found.
Result<TraceClass> parse_tsdl(std::string_view text);

}  // namespace leat::ctf
