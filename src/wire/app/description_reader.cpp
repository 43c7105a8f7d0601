#include "wire/app/description_reader.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/printable_text.hpp"
#include "leat/abi.h"
#include "wire/app/description_format.hpp"

namespace leat::wire {
namespace {

static_assert(static_cast<int>(FieldShape::kTextSequence) == LEAT_SHAPE_TEXT_SEQUENCE);
static_assert(static_cast<int>(FieldElement::kEnum) == LEAT_ELEMENT_ENUM);

// The fewest bytes that one entry takes. A count that cannot fit is refused before memory is allocated.
constexpr std::size_t kMinTracepointSize = 2 + 4 + 2 + 4 + 2 + 4;
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

bool is_all_printable(std::string_view text) {
    for (; !text.empty(); text.remove_prefix(1))
        if (control_size(text) != 0) return false;
    return true;
}

// Cuts a name that is too long for a message.
std::string shortened(std::string name) {
    constexpr std::size_t kShown = 80;
    return name.size() <= kMaxNameLength ? std::move(name) : name.substr(0, kShown) + "...";
}

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
    }
    return values;
}

// Shape and element are not checked here: they may have values that do not exist.
Result<FieldDescription> parse_field(ByteCursor& in) {
    FieldDescription field;
    field.name = LEAT_TRY(parse_string(in));
    field.shape = static_cast<FieldShape>(LEAT_TRY(in.read<std::uint8_t>()));
    field.element = static_cast<FieldElement>(LEAT_TRY(in.read<std::uint8_t>()));
    field.element_size = LEAT_TRY(in.read<std::uint8_t>());
    const unsigned flags = LEAT_TRY(in.read<std::uint8_t>());
    field.is_signed = (flags & LEAT_FIELD_SIGNED) != 0;
    field.is_hex = (flags & LEAT_FIELD_HEX) != 0;
    field.is_network = (flags & LEAT_FIELD_NETWORK) != 0;
    field.is_hidden = (flags & kHiddenField) != 0;
    field.length_size = LEAT_TRY(in.read<std::uint8_t>());
    field.count = LEAT_TRY(in.read<std::uint32_t>());
    field.values = LEAT_TRY(parse_values(in));
    return field;
}

Result<TracepointDescription> parse_tracepoint(ByteCursor& in) {
    TracepointDescription tracepoint;
    tracepoint.name = LEAT_TRY(parse_string(in));
    tracepoint.log_level = LEAT_TRY(in.read<std::int32_t>());
    tracepoint.file = LEAT_TRY(parse_string(in));
    tracepoint.line = LEAT_TRY(in.read<std::uint32_t>());
    tracepoint.model_uri = LEAT_TRY(parse_string(in));
    const std::uint32_t field_count = LEAT_TRY(parse_count(in, kMinFieldSize, "fields"));
    tracepoint.fields.reserve(field_count);
    for (std::uint32_t i = 0; i < field_count; ++i) tracepoint.fields.push_back(LEAT_TRY(parse_field(in)));
    return tracepoint;
}

// Elements. More than fit into any ring, and as many as ctf::RecordWalker takes.
constexpr std::uint32_t kMaxArray = 1U << 30;

bool is_forward(const ValueDescription& value, bool is_signed) {
    return is_signed ? value.low <= value.high
                     : static_cast<std::uint64_t>(value.low) <= static_cast<std::uint64_t>(value.high);
}

Result<void> check_values(const FieldDescription& field) {
    if (field.element == FieldElement::kEnum && field.values.empty())
        return refused("field \"{}\" is an enumeration without values", field.name);
    for (const ValueDescription& value : field.values) {
        if (!is_all_printable(value.label)) return refused("field \"{}\": a label has control characters", field.name);
        if (!is_forward(value, field.is_signed))
            return refused("field \"{}\": value \"{}\" ends before it begins", field.name, value.label);
    }
    return {};
}

Result<void> check_field(const FieldDescription& field) {
    if (!is_identifier(field.name))
        return refused("\"{}\" is no field name: up to {} ASCII letters, digits and underscores are",
                       shortened(printable(field.name)), kMaxNameLength);
    const auto shape = static_cast<unsigned>(field.shape);
    const auto element = static_cast<unsigned>(field.element);
    if (shape > LEAT_SHAPE_TEXT_SEQUENCE) return refused("field \"{}\" has unknown shape {}", field.name, shape);
    if (element > LEAT_ELEMENT_ENUM) return refused("field \"{}\" has unknown element {}", field.name, element);
    const bool is_float = field.element == FieldElement::kFloat;
    if (!is_integer_size(field.element_size) || (is_float && field.element_size < 4))
        return refused("field \"{}\" has elements of {} bytes", field.name, field.element_size);
    const bool is_array = field.shape == FieldShape::kArray || field.shape == FieldShape::kTextArray;
    if (is_array && field.count > kMaxArray) return refused("field \"{}\" has {} elements", field.name, field.count);
    const bool has_length = field.shape == FieldShape::kSequence || field.shape == FieldShape::kTextSequence;
    if (has_length && !is_integer_size(field.length_size))
        return refused("field \"{}\" has a length of {} bytes", field.name, field.length_size);
    return check_values(field);
}

Result<void> check_tracepoint(const TracepointDescription& tracepoint) {
    if (tracepoint.name.empty() || tracepoint.name.size() > kMaxNameLength || !is_all_printable(tracepoint.name))
        return refused("its name has {} bytes or is not printable", tracepoint.name.size());
    if (tracepoint.log_level < 0 || tracepoint.log_level > 14)
        return refused("it has log level {}", tracepoint.log_level);
    if (!is_all_printable(tracepoint.model_uri)) return refused("its URI has control characters");
    std::set<std::string_view> names;  // no hash: programs choose them
    for (const FieldDescription& field : tracepoint.fields) {
        LEAT_TRY(check_field(field));
        if (!names.insert(field.name).second) return refused("it has two fields \"{}\"", field.name);
    }
    return {};
}

// Keeps only what a message needs to name the tracepoint, in printable form.
void refuse(TracepointDescription& tracepoint, std::string reason) {
    tracepoint.refusal = std::move(reason);
    tracepoint.name = shortened(printable(tracepoint.name));
    tracepoint.fields.clear();
}

}  // namespace

Result<std::vector<TracepointDescription>> parse_descriptions(UntrustedBytes table) {
    ByteCursor in(table);
    const auto magic = LEAT_TRY(in.read<std::uint32_t>());
    const auto version = LEAT_TRY(in.read<std::uint32_t>());
    if (magic != kDescriptionMagic) return corrupt("description table begins with {:#x}", magic);
    if (version != kDescriptionVersion)
        return unsupported("description table of version {}; this is version {}", version, kDescriptionVersion);
    const std::uint32_t count = LEAT_TRY(parse_count(in, kMinTracepointSize, "tracepoints"));
    const auto size = LEAT_TRY(in.read<std::uint32_t>());
    if (size != table.size()) return corrupt("description table of {} bytes says that it has {}", table.size(), size);
    std::vector<TracepointDescription> tracepoints;
    for (std::uint32_t i = 0; i < count; ++i) {
        TracepointDescription tracepoint = LEAT_TRY(parse_tracepoint(in));
        tracepoint.file = printable(std::move(tracepoint.file));
        const auto checked = check_tracepoint(tracepoint);
        if (!checked) refuse(tracepoint, checked.error().message);
        tracepoints.push_back(std::move(tracepoint));
    }
    return tracepoints;
}

}  // namespace leat::wire
