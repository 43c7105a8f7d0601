#include "viewer/filter/value_path.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace leat::viewer {
namespace {

bool any_class(const ctf::FieldClass& field_class, ValuePathView path, const ClassVisitor& accepts);

bool any_member(std::span<const ctf::StructMember> members, ValuePathView path, const ClassVisitor& accepts) {
    const auto* const name = std::get_if<std::string>(&path.front());
    return name != nullptr && std::ranges::any_of(members, [&](const ctf::StructMember& member) {
               return ctf::display_name(member) == *name && !is_timestamp(member.field_class) &&
                      any_class(member.field_class, path.subspan(1), accepts);
           });
}

// What a variant holds is found behind the variant's own name.
bool any_class(const ctf::FieldClass& field_class, ValuePathView path, const ClassVisitor& accepts) {
    if (const auto* variant = field_class.as<ctf::VariantClass>())
        return std::ranges::any_of(variant->options,
                                   [&](const auto& option) { return any_class(option.field_class, path, accepts); });
    if (path.empty()) return accepts(field_class);
    if (const auto* structure = field_class.as<ctf::StructClass>())
        return any_member(structure->members, path, accepts);
    const auto* const array = field_class.as<ctf::ArrayClass>();
    const auto* const sequence = field_class.as<ctf::SequenceClass>();
    if (!std::holds_alternative<std::uint64_t>(path.front()) || (array == nullptr && sequence == nullptr)) return false;
    const ctf::FieldClass& element = array != nullptr ? *array->element : *sequence->element;
    return !ctf::is_character(element) && any_class(element, path.subspan(1), accepts);
}

bool is_any(const ctf::FieldClass& /*field_class*/) { return true; }

}  // namespace

bool is_timestamp(const ctf::FieldClass& field_class) {
    const ctf::IntegerClass* const integer = ctf::integer_of(field_class);
    return integer != nullptr && (!integer->clock.empty() || ctf::is_time(integer->role));
}

const ctf::FieldValue* next_sibling(const ctf::FieldValue* value) {
    for (std::uint64_t parts = 1; parts > 0; --parts, ++value) parts += value->is_text ? 0 : value->size;
    return value;
}

const ctf::FieldValue* find_part(const ctf::FieldValue* value, ValuePathView path) {
    while (value->field_class != nullptr && value->field_class->as<ctf::VariantClass>() != nullptr && !value->is_text) {
        if (value->size == 0) return nullptr;
        ++value;
    }
    if (path.empty()) return value;
    if (value->is_text) return nullptr;
    const bool is_structure = value->field_class == nullptr || value->field_class->as<ctf::StructClass>() != nullptr;
    const auto* const name = std::get_if<std::string>(&path.front());
    const auto* const index = std::get_if<std::uint64_t>(&path.front());
    const bool is_array = value->field_class != nullptr && (value->field_class->as<ctf::ArrayClass>() != nullptr ||
                                                            value->field_class->as<ctf::SequenceClass>() != nullptr);
    if (is_structure ? name == nullptr : !is_array || index == nullptr) return nullptr;
    const ctf::FieldValue* part = value + 1;
    for (std::uint32_t i = 0; i < value->size; ++i, part = next_sibling(part))
        if (is_structure ? part->name == *name : i == *index) return find_part(part, path.subspan(1));
    return nullptr;
}

bool any_field(const std::optional<ctf::StructClass>& scope, ValuePathView path, const ClassVisitor& accepts) {
    return scope && any_member(scope->members, path, accepts);
}
bool has_field(const std::optional<ctf::StructClass>& scope, ValuePathView path) {
    return any_field(scope, path, is_any);
}

bool is_for_readers(const ctf::TraceClass& trace_class, const ctf::StructMember& member) {
    constexpr std::array<std::string_view, 6> kNames{"timestamp_begin", "timestamp_end",    "content_size",
                                                     "packet_size",     "events_discarded", "packet_seq_num"};
    const ctf::IntegerClass* const integer = ctf::integer_of(member.field_class);
    if (trace_class.has_roles) return integer != nullptr && integer->role != ctf::FieldRole::kNone;
    return std::ranges::find(kNames, member.name) != kNames.end() || is_timestamp(member.field_class);
}

bool any_packet_field(const ctf::TraceClass& trace_class, const ctf::StreamClass& stream, ValuePathView path,
                      const ClassVisitor& accepts) {
    const auto* const name = std::get_if<std::string>(&path.front());
    return stream.packet_context && name != nullptr &&
           std::ranges::any_of(stream.packet_context->members, [&](const ctf::StructMember& member) {
               return ctf::display_name(member) == *name && !is_for_readers(trace_class, member) &&
                      any_class(member.field_class, path.subspan(1), accepts);
           });
}
bool has_packet_field(const ctf::TraceClass& trace_class, const ctf::StreamClass& stream, ValuePathView path) {
    return any_packet_field(trace_class, stream, path, is_any);
}

const ctf::FieldValue* find_value(std::span<const ctf::FieldValue> scope, ValuePathView path) {
    return scope.empty() ? nullptr : find_part(scope.data(), path);
}

const ctf::FieldValue* find_context(const ctf::EventRecord& event, ValuePathView path) {
    const ctf::FieldValue* const value = find_value(event.event_context, path);
    return value != nullptr ? value : find_value(event.context, path);
}

std::optional<std::int64_t> integer_of(const ctf::FieldValue* value) {
    if (value == nullptr || value->is_text || value->field_class->as<ctf::IntegerClass>() == nullptr)
        return std::nullopt;
    return static_cast<std::int64_t>(value->number);
}

}  // namespace leat::viewer
