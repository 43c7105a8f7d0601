#include "session/event_description.hpp"

#include <set>

#include "ctf/tsdl/tsdl_lexer.hpp"

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

bool is_sequence(FieldShape shape) { return shape == FieldShape::kSequence || shape == FieldShape::kTextSequence; }

// Chooses the names of one event's fields in TSDL. Ask in the order of the fields.
//
// The field "x" is written "_x", and readers remove one underscore. babeltrace2 compares the name of a new field, as
// written, with the names of earlier fields, as shown: it refuses "_x" after "__x", which it shows as "_x". So "x" is
// written "x" if the program has a field "_x" before it. The same helps where "_x" is a keyword ("_Bool").
class MemberNames {
  public:
    explicit MemberNames(const std::vector<FieldDescription>& fields) {
        for (const FieldDescription& field : fields) {
            lengths_avoid_.insert(field.name);
            lengths_avoid_.insert("_" + field.name);
        }
    }

    Result<std::string> of_field(const std::string& name) {
        shown_.insert(name);
        std::string written = "_" + name;
        if (!shown_.contains(written) && !ctf::is_keyword(written)) return written;
        if (!name.starts_with('_') && !ctf::is_keyword(name)) return name;
        return refused("CTF cannot name the field \"{}\" after a field \"{}\": rename one of them", name, written);
    }

    // The length of the sequence "x" is written "__x_length", or "__x_length_2" and so on, so that it cannot collide
    // with a field of the program, as written or as shown.
    std::string of_length(const std::string& sequence) {
        const std::string shown = "_" + sequence + "_length";
        std::string suffix;
        for (unsigned turn = 2; is_avoided(shown + suffix); ++turn) suffix = fmt::format("_{}", turn);
        lengths_avoid_.insert(shown + suffix);
        lengths_avoid_.insert("_" + shown + suffix);
        return "_" + shown + suffix;
    }

  private:
    [[nodiscard]] bool is_avoided(const std::string& shown) const {
        return lengths_avoid_.contains(shown) || lengths_avoid_.contains("_" + shown);
    }

    std::set<std::string> lengths_avoid_;  // all fields, as they are shown and written; lengths so far
    std::set<std::string> shown_;          // the fields so far
};

ctf::FieldClass element_of(const FieldDescription& field) {
    if (is_text(field.shape)) return character_class();
    // A description may have arrays of enumerations, although our headers make none: record their numbers.
    const bool is_scalar = field.shape == FieldShape::kScalar;
    return is_scalar || field.element != FieldElement::kEnum ? element_class(field)
                                                             : ctf::FieldClass(integer_class(field));
}

ctf::FieldClass field_class_of(const FieldDescription& field, const std::string& length_name) {
    switch (field.shape) {
        case FieldShape::kScalar:
            return element_of(field);
        case FieldShape::kString:
            return ctf::StringClass{};
        case FieldShape::kArray:
        case FieldShape::kTextArray:
            return ctf::ArrayClass{element_of(field), field.count};
        case FieldShape::kSequence:
        case FieldShape::kTextSequence:
            break;
    }
    return ctf::SequenceClass{element_of(field), {length_name}};
}

Result<void> append_field(ctf::StructClass& fields, const FieldDescription& field, MemberNames& names) {
    std::string length_name;
    if (is_sequence(field.shape)) {
        length_name = names.of_length(field.name);
        fields.members.push_back({length_name, ctf::IntegerClass{.size = field.length_size * 8}});
    }
    const std::string name = LEAT_TRY(names.of_field(field.name));
    fields.members.push_back({name, field_class_of(field, length_name)});
    return {};
}

}  // namespace

Result<ctf::EventClass> event_class_of(const wire::TracepointDescription& tracepoint) {
    if (!tracepoint.refusal.empty()) return refused("{}", tracepoint.refusal);
    ctf::EventClass event_class;
    event_class.name = tracepoint.name;
    event_class.log_level = tracepoint.log_level;
    event_class.model_uri = tracepoint.model_uri;
    event_class.fields.emplace();
    MemberNames names(tracepoint.fields);
    for (const FieldDescription& field : tracepoint.fields)
        if (!field.is_hidden) LEAT_TRY(append_field(*event_class.fields, field, names));
    return event_class;
}

}  // namespace leat::session
