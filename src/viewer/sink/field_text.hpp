#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ctf/decode/field_value.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_options.hpp"

namespace leat::viewer {

// Writes a scope's fields, or one field, as people read them: { a = 1, list = [ [0] = 2 ], s = "x\n", e = ( "RED" :
// container = 0 ) }
void append_fields(TextBuffer& buffer, std::span<const ctf::FieldValue> values, bool has_names,
                   const TextColors& colors = {});

// Writes text in quotes, and escapes what would break a line or a quote as C does. Other bytes, mostly UTF-8, are not
// changed.
void append_quoted(TextBuffer& buffer, std::string_view text);

}  // namespace leat::viewer
