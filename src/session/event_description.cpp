#include "session/event_description.hpp"

namespace leat::session {
namespace {

using wire::FieldDescription;
using wire::FieldElement;
using wire::FieldShape;

ctf::ByteOrder byte_order(const FieldDescription& field) {
    return field.is_network ? ctf::ByteOrder::kBigEndian : ctf::ByteOrder::kLittleEndian;
}

ctf::IntegerClass integer_class(const FieldDescription& field) {
    return {.size = field.element_size * 8,
            .is_signed = field.is_signed,
            .base = field.is_hex ? ctf::DisplayBase::kHexadecimal : ctf::DisplayBase::kDecimal,
            .byte_order = byte_order(field)};
}

ctf::EnumClass enum_class(const FieldDescription& field) {
    ctf::EnumClass result{.container = integer_class(field)};
    for (const wire::ValueDescription& value : field.values)
        result.ranges.push_back(
            {value.label, static_cast<std::uint64_t>(value.low), static_cast<std::uint64_t>(value.high)});
    return result;
}

ctf::FieldClass element_class(const FieldDescription& field) {
    switch (field.element) {
        case FieldElement::kFloat:
            return ctf::FloatClass{.size = field.element_size * 8, .byte_order = byte_order(field)};
        case FieldElement::kEnum:
            return enum_class(field);
        case FieldElement::kInteger:
            break;
    }
    return integer_class(field);
}

ctf::FieldClass character_class() { return ctf::IntegerClass{.size = 8, .encoding = ctf::Encoding::kUtf8}; }

bool is_text(FieldShape shape) { return shape == FieldShape::kTextArray || shape == FieldShape::kTextSequence; }

void append_sequence(ctf::StructClass& fields, const FieldDescription& field, ctf::FieldClass element) {
    const std::string length_name = "__" + field.name + "_length";
    fields.members.push_back({length_name, ctf::IntegerClass{.size = field.length_size * 8}});
    fields.members.push_back({"_" + field.name, ctf::SequenceClass{std::move(element), {length_name}}});
}

void append_field(ctf::StructClass& fields, const FieldDescription& field) {
    const std::string name = "_" + field.name;
    // Arrays of enumerations are described, but no header makes them: their numbers are recorded.
    const bool is_scalar = field.shape == FieldShape::kScalar;
    ctf::FieldClass element = is_text(field.shape) ? character_class()
                              : is_scalar || field.element != FieldElement::kEnum
                                  ? element_class(field)
                                  : ctf::FieldClass(integer_class(field));
    switch (field.shape) {
        case FieldShape::kScalar:
            return fields.members.push_back({name, std::move(element)});
        case FieldShape::kString:
            return fields.members.push_back({name, ctf::StringClass{}});
        case FieldShape::kArray:
        case FieldShape::kTextArray:
            return fields.members.push_back({name, ctf::ArrayClass{std::move(element), field.count}});
        case FieldShape::kSequence:
        case FieldShape::kTextSequence:
            return append_sequence(fields, field, std::move(element));
    }
}

}  // namespace

Result<ctf::EventClass> event_class_of(const wire::TracepointDescription& tracepoint) {
    if (!tracepoint.refusal.empty()) return refused("{}", tracepoint.refusal);
    ctf::EventClass event_class;
    event_class.name = tracepoint.name;
    event_class.log_level = tracepoint.log_level;
    event_class.fields.emplace();
    for (const FieldDescription& field : tracepoint.fields) append_field(*event_class.fields, field);
    return event_class;
}

}  // namespace leat::session
