#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ctf/decode/event_record.hpp"
#include "ctf/decode/field_value.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// The way from a scope to one of its fields: members by their names, elements by their numbers. What a variant holds is
// found under the variant's own name.
using ValuePathStep = std::variant<std::string, std::uint64_t>;
using ValuePath = std::vector<ValuePathStep>;
using ValuePathView = std::span<const ValuePathStep>;

// Whether events may have that field. The path is not empty. What readers alone use, such as timestamps and sizes of
// packets, is no part of an event.
[[nodiscard]] bool has_field(const std::optional<ctf::StructClass>& scope, ValuePathView path);
[[nodiscard]] bool has_packet_field(const ctf::TraceClass& trace_class, const ctf::StreamClass& stream,
                                    ValuePathView path);
// The same, if `accepts` takes the class of the field; events may have fields of several classes in one place.
using ClassVisitor = std::function<bool(const ctf::FieldClass&)>;
bool any_field(const std::optional<ctf::StructClass>& scope, ValuePathView path, const ClassVisitor& accepts);
bool any_packet_field(const ctf::TraceClass& trace_class, const ctf::StreamClass& stream, ValuePathView path,
                      const ClassVisitor& accepts);
// Whether it is a time of the clock, of which people see the time of the event.
[[nodiscard]] bool is_timestamp(const ctf::FieldClass& field_class);
// Whether a member of the packet context of such a trace is for readers alone.
[[nodiscard]] bool is_for_readers(const ctf::TraceClass& trace_class, const ctf::StructMember& member);

// The value behind this one and its parts.
[[nodiscard]] const ctf::FieldValue* next_sibling(const ctf::FieldValue* value);
// A part of this value; of an empty path, the value, or what a variant holds. Null: there is none.
[[nodiscard]] const ctf::FieldValue* find_part(const ctf::FieldValue* value, ValuePathView path);
// Null: this event does not have it.
[[nodiscard]] const ctf::FieldValue* find_value(std::span<const ctf::FieldValue> scope, ValuePathView path);

// In the contexts that all events of a stream have, or else in those that it has of its own.
[[nodiscard]] const ctf::FieldValue* find_context(const ctf::EventRecord& event, ValuePathView path);

// None: it is null, or no integer.
[[nodiscard]] std::optional<std::int64_t> integer_of(const ctf::FieldValue* value);

}  // namespace leat::viewer
