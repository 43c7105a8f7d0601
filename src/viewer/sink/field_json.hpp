#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ctf/decode/field_value.hpp"
#include "viewer/sink/text_buffer.hpp"

namespace leat::viewer {

// Writes a scope's fields, or one field, as JSON (RFC 8259):
// {"a":1,"list":[2],"s":"x\n","e":{"value":0,"labels":["RED"]}} A variant is what it holds. Numbers are exact: readers
// need 64 bits; or, for those who have only doubles (JavaScript), integers that these cannot hold are texts. What is no
// number in JSON is a text: "NaN", "Infinity", "-Infinity".
enum class JsonIntegers : std::uint8_t { kExact, kForDoubles };
void append_json(TextBuffer& buffer, std::span<const ctf::FieldValue> values,
                 JsonIntegers integers = JsonIntegers::kExact);

// Writes text in quotes. Bytes that are not UTF-8 become U+FFFD.
void append_json_text(TextBuffer& buffer, std::string_view text);

}  // namespace leat::viewer
