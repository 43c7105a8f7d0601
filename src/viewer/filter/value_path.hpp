#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ctf/decode/field_value.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// The way from a scope to one of its fields: members by their names, elements by their numbers. What a variant holds is
// found under the variant's own name.
using ValuePathStep = std::variant<std::string, std::uint64_t>;
using ValuePath = std::vector<ValuePathStep>;
using ValuePathView = std::span<const ValuePathStep>;

// Whether events may have that field. The path is not empty.
[[nodiscard]] bool has_field(const std::optional<ctf::StructClass>& scope, ValuePathView path);

// Null: this event does not have it.
[[nodiscard]] const ctf::FieldValue* find_value(std::span<const ctf::FieldValue> scope, ValuePathView path);

}  // namespace leat::viewer
