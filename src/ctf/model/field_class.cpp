#include "ctf/model/field_class.hpp"

#include <algorithm>

namespace leat::ctf {
namespace {

struct AlignmentOf {
    unsigned operator()(const IntegerClass& integer) const { return integer.alignment; }
    unsigned operator()(const FloatClass& real) const { return real.alignment; }
    unsigned operator()(const EnumClass& enumeration) const { return enumeration.container.alignment; }
    unsigned operator()(const StringClass&) const { return 8; }
    unsigned operator()(const ArrayClass& array) const {
        return std::max(array.minimum_alignment, alignment_of(*array.element));
    }
    unsigned operator()(const SequenceClass& sequence) const {
        return std::max(sequence.minimum_alignment, alignment_of(*sequence.element));
    }
    unsigned operator()(const StructClass& struct_class) const { return alignment_of(struct_class); }
    // Each option aligns itself when it is chosen.
    unsigned operator()(const VariantClass&) const { return 1; }
};

}  // namespace

bool ArrayClass::operator==(const ArrayClass& other) const {
    return length == other.length && element == other.element && minimum_alignment == other.minimum_alignment;
}

bool SequenceClass::operator==(const SequenceClass& other) const {
    return length == other.length && element == other.element && minimum_alignment == other.minimum_alignment;
}

bool StructClass::operator==(const StructClass& other) const {
    return minimum_alignment == other.minimum_alignment && members == other.members;
}

bool VariantClass::operator==(const VariantClass& other) const {
    return tag == other.tag && options == other.options && choices == other.choices && is_optional == other.is_optional;
}

std::string_view display_name(const StructMember& member) {
    std::string_view name = member.name;
    if (name.starts_with('_')) name.remove_prefix(1);
    return name;
}

const FieldClass* find_member(const StructClass& struct_class, std::string_view name) {
    const auto member = std::ranges::find(struct_class.members, name, &StructMember::name);
    return member == struct_class.members.end() ? nullptr : &member->field_class;
}

unsigned alignment_of(const FieldClass& field_class) { return std::visit(AlignmentOf{}, field_class.form()); }

unsigned alignment_of(const StructClass& struct_class) {
    unsigned alignment = struct_class.minimum_alignment;
    for (const StructMember& member : struct_class.members)
        alignment = std::max(alignment, alignment_of(member.field_class));
    return alignment;
}

const IntegerClass* integer_of(const FieldClass& field_class) {
    const auto* const enumeration = field_class.as<EnumClass>();
    return enumeration != nullptr ? &enumeration->container : field_class.as<IntegerClass>();
}

bool is_character(const FieldClass& field_class) {
    const IntegerClass* const integer = integer_of(field_class);
    return integer != nullptr && integer->size == 8 && integer->alignment == 8 && integer->encoding != Encoding::kNone;
}

unsigned unit_size(Encoding encoding) {
    switch (encoding) {
        case Encoding::kUtf16Le:
        case Encoding::kUtf16Be:
            return 2;
        case Encoding::kUtf32Le:
        case Encoding::kUtf32Be:
            return 4;
        default:
            return 1;
    }
}

}  // namespace leat::ctf
