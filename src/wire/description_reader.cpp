#include "wire/description_reader.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "leat/abi.h"
#include "wire/description_format.hpp"

namespace leat::wire {
namespace {

static_assert(static_cast<int>(FieldShape::kTextSequence) == LEAT_SHAPE_TEXT_SEQUENCE);
static_assert(static_cast<int>(FieldElement::kEnum) == LEAT_ELEMENT_ENUM);

// The fewest bytes that one entry takes: a count of more than fits is refused before anything is allocated.
constexpr std::size_t kMinTracepointSize = 2 + 4 + 2 + 4 + 4;
constexpr std::size_t kMinFieldSize = 2 + 5 + 4 + 4;
constexpr std::size_t kMinValueSize = 2 + 8 + 8;

Result<std::string> parse_string(ByteCursor& in) {
    const auto length = LEAT_TRY(in.read<std::uint16_t>());
    const UntrustedBytes bytes = LEAT_TRY(in.take(length));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());  // NOLINT(*-reinterpret-cast)
}

Result<std::uint32_t> parse_count(ByteCursor& in, std::size_t min_entry_size, std::string_view what) {
    const auto count = LEAT_TRY(in.read<std::uint32_t>());
    if (count > in.remaining() / min_entry_size)
        return corrupt("{} {} do not fit into {} bytes", count, what, in.remaining());
    return count;
}

bool is_printable(char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; }

bool is_identifier(std::string_view name) {
    const auto is_word = [](char c) {
        return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    return !name.empty() && name.size() <= kMaxNameLength && !(name[0] >= '0' && name[0] <= '9') &&
           std::all_of(name.begin(), name.end(), is_word);
}

bool is_integer_size(unsigned size) { return size == 1 || size == 2 || size == 4 || size == 8; }

Result<std::vector<ValueDescription>> parse_values(ByteCursor& in) {
    const std::uint32_t count = LEAT_TRY(parse_count(in, kMinValueSize, "enumeration values"));
    std::vector<ValueDescription> values(count);
    for (ValueDescription& value : values) {
        value.label = LEAT_TRY(parse_string(in));
        value.low = LEAT_TRY(in.read<std::int64_t>());
        value.high = LEAT_TRY(in.read<std::int64_t>());
        if (!std::all_of(value.label.begin(), value.label.end(), is_printable))
            return corrupt("an enumeration label has control characters");
    }
    return values;
}

bool is_forward(const ValueDescription& value, bool is_signed) {
    return is_signed ? value.low <= value.high
                     : static_cast<std::uint64_t>(value.low) <= static_cast<std::uint64_t>(value.high);
}

Result<void> check_values(const FieldDescription& field) {
    if (field.element == FieldElement::kEnum && field.values.empty())
        return corrupt("field \"{}\" is an enumeration without values", field.name);
    for (const ValueDescription& value : field.values) {
        if (!is_forward(value, field.is_signed))
            return corrupt("field \"{}\": value \"{}\" ends before it begins", field.name, value.label);
    }
    return {};
}

Result<void> check_field(const FieldDescription& field, unsigned shape, unsigned element) {
    if (!is_identifier(field.name)) return corrupt("\"{}\" is no field name", printable(field.name));
    if (shape > LEAT_SHAPE_TEXT_SEQUENCE) return corrupt("field \"{}\" has unknown shape {}", field.name, shape);
    if (element > LEAT_ELEMENT_ENUM) return corrupt("field \"{}\" has unknown element {}", field.name, element);
    const bool is_float = element == LEAT_ELEMENT_FLOAT;
    if (!is_integer_size(field.element_size) || (is_float && field.element_size < 4))
        return corrupt("field \"{}\" has elements of {} bytes", field.name, field.element_size);
    const bool has_length = shape == LEAT_SHAPE_SEQUENCE || shape == LEAT_SHAPE_TEXT_SEQUENCE;
    if (has_length && !is_integer_size(field.length_size))
        return corrupt("field \"{}\" has a length of {} bytes", field.name, field.length_size);
    return {};
}

Result<FieldDescription> parse_field(ByteCursor& in) {
    FieldDescription field;
    field.name = LEAT_TRY(parse_string(in));
    const unsigned shape = LEAT_TRY(in.read<std::uint8_t>());
    const unsigned element = LEAT_TRY(in.read<std::uint8_t>());
    field.element_size = LEAT_TRY(in.read<std::uint8_t>());
    const unsigned flags = LEAT_TRY(in.read<std::uint8_t>());
    field.length_size = LEAT_TRY(in.read<std::uint8_t>());
    field.count = LEAT_TRY(in.read<std::uint32_t>());
    field.values = LEAT_TRY(parse_values(in));
    LEAT_TRY(check_field(field, shape, element));
    field.shape = static_cast<FieldShape>(shape);
    field.element = static_cast<FieldElement>(element);
    field.is_signed = (flags & LEAT_FIELD_SIGNED) != 0;
    field.is_hex = (flags & LEAT_FIELD_HEX) != 0;
    field.is_network = (flags & LEAT_FIELD_NETWORK) != 0;
    LEAT_TRY(check_values(field));
    return field;
}

bool is_sequence(const FieldDescription& field) {
    return field.shape == FieldShape::kSequence || field.shape == FieldShape::kTextSequence;
}

// No reader takes metadata with two members of one name. In front of a sequence "x" stands its length "_x_length".
Result<void> check_names(const TracepointDescription& tracepoint) {
    std::unordered_set<std::string> names;
    for (const FieldDescription& field : tracepoint.fields) {
        if (!names.insert(field.name).second ||
            (is_sequence(field) && !names.insert("_" + field.name + "_length").second))
            return corrupt("tracepoint \"{}\" has two fields \"{}\"", tracepoint.name, field.name);
    }
    return {};
}

Result<TracepointDescription> parse_tracepoint(ByteCursor& in) {
    TracepointDescription tracepoint;
    tracepoint.name = LEAT_TRY(parse_string(in));
    if (tracepoint.name.empty() || tracepoint.name.size() > kMaxNameLength ||
        !std::all_of(tracepoint.name.begin(), tracepoint.name.end(), is_printable))
        return corrupt("a tracepoint's name has {} bytes or is not printable", tracepoint.name.size());
    tracepoint.log_level = LEAT_TRY(in.read<std::int32_t>());
    if (tracepoint.log_level < 0 || tracepoint.log_level > 14)
        return corrupt("tracepoint \"{}\" has log level {}", tracepoint.name, tracepoint.log_level);
    tracepoint.file = LEAT_TRY(parse_string(in));
    tracepoint.line = LEAT_TRY(in.read<std::uint32_t>());
    const std::uint32_t field_count = LEAT_TRY(parse_count(in, kMinFieldSize, "fields"));
    tracepoint.fields.reserve(field_count);
    for (std::uint32_t i = 0; i < field_count; ++i) tracepoint.fields.push_back(LEAT_TRY(parse_field(in)));
    LEAT_TRY(check_names(tracepoint));
    return tracepoint;
}

}  // namespace

std::string printable(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return !is_printable(c); }, '?');
    return text;
}

Result<std::vector<TracepointDescription>> parse_descriptions(UntrustedBytes table) {
    ByteCursor in(table);
    const auto magic = LEAT_TRY(in.read<std::uint32_t>());
    const auto version = LEAT_TRY(in.read<std::uint32_t>());
    if (magic != kDescriptionMagic) return corrupt("description table begins with {:#x}", magic);
    if (version != kDescriptionVersion)
        return unsupported("description table of version {}; this is version {}", version, kDescriptionVersion);
    const std::uint32_t count = LEAT_TRY(parse_count(in, kMinTracepointSize, "tracepoints"));
    const auto size = LEAT_TRY(in.read<std::uint32_t>());
    if (size != table.size()) return corrupt("description table of {} bytes says {}", table.size(), size);
    std::vector<TracepointDescription> tracepoints;
    for (std::uint32_t i = 0; i < count; ++i) tracepoints.push_back(LEAT_TRY(parse_tracepoint(in)));
    return tracepoints;
}

}  // namespace leat::wire
