#include "ctf/json/json_field_classes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <set>
#include <utility>

#include "ctf/model/trace_class.hpp"

namespace leat::ctf {
namespace {

// A reader goes through the labels of a bit map one by one.
constexpr std::size_t kMaxFlags = 1024;

constexpr std::array<std::string_view, 5> kFixedLength{"type", "length", "byte-order", "bit-order", "alignment"};

constexpr std::string_view kLengthLocation = "length-field-location";
constexpr std::string_view kSelectorLocation = "selector-field-location";
constexpr std::string_view kSelectorRanges = "selector-field-ranges";

template <class T>
struct Named {
    std::string_view name;
    T value;
};

constexpr std::array kRoles{
    Named<FieldRole>{"packet-magic-number", FieldRole::kMagic},
    Named<FieldRole>{"data-stream-class-id", FieldRole::kStreamId},
    Named<FieldRole>{"data-stream-id", FieldRole::kStreamInstanceId},
    Named<FieldRole>{"packet-total-length", FieldRole::kPacketSize},
    Named<FieldRole>{"packet-content-length", FieldRole::kContentSize},
    Named<FieldRole>{"default-clock-timestamp", FieldRole::kTimestamp},
    Named<FieldRole>{"packet-end-default-clock-timestamp", FieldRole::kTimestampEnd},
    Named<FieldRole>{"discarded-event-record-counter-snapshot", FieldRole::kEventsDiscarded},
    Named<FieldRole>{"packet-sequence-number", FieldRole::kPacketSequenceNumber},
    Named<FieldRole>{"event-record-class-id", FieldRole::kEventId},
};
constexpr std::string_view kUuidRole = "metadata-stream-uuid";

constexpr std::array kEncodings{
    Named<Encoding>{"utf-8", Encoding::kUtf8}, Named<Encoding>{"utf-16le", Encoding::kUtf16Le},
    Named<Encoding>{"utf-16be", Encoding::kUtf16Be}, Named<Encoding>{"utf-32le", Encoding::kUtf32Le},
    Named<Encoding>{"utf-32be", Encoding::kUtf32Be}};

// Where a path begins, in the words of TSDL.
struct Origin {
    std::string_view name;
    std::array<std::string_view, 3> words;
};
constexpr std::array kOrigins{
    Origin{"packet-header", {"trace", "packet", "header"}},
    Origin{"packet-context", {"stream", "packet", "context"}},
    Origin{"event-record-header", {"stream", "event", "header"}},
    Origin{"event-record-common-context", {"stream", "event", "context"}},
    Origin{"event-record-specific-context", {"event", "context", ""}},
    Origin{"event-record-payload", {"event", "fields", ""}},
};

template <class Table>
auto find_named(const Table& table, const std::string& name) {
    const auto found = std::ranges::find_if(table, [&name](const auto& entry) { return entry.name == name; });
    return found == table.end() ? nullptr : &*found;
}

Result<unsigned> alignment(const JsonProperties& properties, std::string_view name) {
    const std::uint64_t bits = LEAT_TRY(properties.number(name, 1, kMaxAlignment, 1));
    if (!std::has_single_bit(bits)) return corrupt("{}: {} is not a power of two", name, bits);
    return static_cast<unsigned>(bits);
}

Result<ByteOrder> byte_order(const JsonProperties& properties) {
    const std::string order = LEAT_TRY(properties.text("byte-order"));
    if (order == "little-endian") return ByteOrder::kLittleEndian;
    if (order == "big-endian") return ByteOrder::kBigEndian;
    return corrupt("byte-order: expected \"little-endian\" or \"big-endian\", found {}", shown(order));
}

// Whether the bits are counted from the other end than a byte order does it by itself.
Result<bool> is_reversed(const JsonProperties& properties, ByteOrder order) {
    const std::string_view own = order == ByteOrder::kLittleEndian ? "first-to-last" : "last-to-first";
    const std::string bits = LEAT_TRY(properties.text_or("bit-order", own));
    if (bits != "first-to-last" && bits != "last-to-first")
        return corrupt("bit-order: expected \"first-to-last\" or \"last-to-first\", found {}", shown(bits));
    return bits != own;
}

// What all fixed-length classes have.
Result<IntegerClass> fixed_length(const JsonProperties& properties) {
    IntegerClass integer;
    integer.size = static_cast<unsigned>(LEAT_TRY(properties.number("length", 1, 64)));
    integer.alignment = LEAT_TRY(alignment(properties, "alignment"));
    integer.byte_order = LEAT_TRY(byte_order(properties));
    integer.is_reversed = LEAT_TRY(is_reversed(properties, integer.byte_order));
    return integer;
}

Result<IntegerClass> bits(const JsonProperties& properties) {
    IntegerClass bits = LEAT_TRY(fixed_length(properties));
    bits.kind = IntegerKind::kBits;
    bits.base = DisplayBase::kHexadecimal;
    return bits;
}

Result<DisplayBase> display_base(const JsonProperties& properties) {
    const std::uint64_t base = LEAT_TRY(properties.number("preferred-display-base", 2, 16, 10));
    for (const DisplayBase known :
         {DisplayBase::kBinary, DisplayBase::kOctal, DisplayBase::kDecimal, DisplayBase::kHexadecimal})
        if (base == static_cast<std::uint64_t>(known)) return known;
    return corrupt("preferred-display-base: expected 2, 8, 10 or 16, found {}", base);
}

bool is_length(FieldRole role) { return role == FieldRole::kPacketSize || role == FieldRole::kContentSize; }

Result<FieldRole> role(const JsonProperties& properties) {
    const Json* const roles = LEAT_TRY(properties.array("roles"));
    FieldRole found = FieldRole::kNone;
    for (const Json& name : *roles) {
        const auto* const known = name.is_string() ? find_named(kRoles, name.get<std::string>()) : nullptr;
        if (known == nullptr) return corrupt("roles: {} is not a role of an integer", shown(name));
        const bool is_another = found != FieldRole::kNone && found != known->value;
        if (is_another && !(is_length(found) && is_length(known->value)))
            return unsupported("roles: one field with two roles cannot be read");
        // A packet that does not state its own length is as long as its content.
        found = is_another ? FieldRole::kContentSize : known->value;
    }
    return found;
}

Result<Encoding> encoding(const JsonProperties& properties) {
    const std::string name = LEAT_TRY(properties.text_or("encoding", "utf-8"));
    const auto* const known = find_named(kEncodings, name);
    if (known == nullptr)
        return corrupt("encoding: expected \"utf-8\", \"utf-16le\" or the like, found {}", shown(name));
    return known->value;
}

IntegerClass byte_of_blob() { return {.base = DisplayBase::kHexadecimal, .kind = IntegerKind::kByte}; }

struct Range {
    std::uint64_t lower;
    std::uint64_t upper;
};

Result<std::vector<Range>> ranges(const Json& value, bool is_signed) {
    if (!value.is_array() || value.empty()) return corrupt("expected an array of ranges, found {}", shown(value));
    std::vector<Range> ranges;
    for (const Json& range : value) {
        if (!range.is_array() || range.size() != 2)
            return corrupt("expected a range of two integers, found {}", shown(range));
        const auto lower = integer_bits(range[0], is_signed);
        const auto upper = integer_bits(range[1], is_signed);
        if (!lower || !upper || !is_at_most(*lower, *upper, is_signed))
            return corrupt("expected a range of two {} integers in ascending order, found {} and {}",
                           is_signed ? "signed" : "unsigned", shown(range[0]), shown(range[1]));
        ranges.push_back({*lower, *upper});
    }
    return ranges;
}

// Of the bits in these ranges, counted from the lowest of `size`.
Result<std::uint64_t> mask_of(const Json& value, unsigned size) {
    std::uint64_t mask = 0;
    for (const Range& range : LEAT_TRY(ranges(value, false))) {
        if (range.upper >= size) return corrupt("there is no bit {} among {}", range.upper, size);
        mask |= (~std::uint64_t{0} >> (63 - range.upper)) & (~std::uint64_t{0} << range.lower);
    }
    return mask;
}

// A user's field has an underscore more in TSDL. So has one here whose name would lose its own, or mean something in a
// path.
std::string name_in_model(std::string_view name) {
    return (name.starts_with('_') || name.starts_with('.') ? "_" : "") + escaped(name);
}

}  // namespace

const JsonFieldClasses::Type* JsonFieldClasses::find_type(std::string_view name) {
    static constexpr std::array kTypes{
        Type{"fixed-length-bit-array", &JsonFieldClasses::bit_array},
        Type{"fixed-length-bit-map", &JsonFieldClasses::bit_map},
        Type{"fixed-length-boolean", &JsonFieldClasses::boolean},
        Type{"fixed-length-unsigned-integer", &JsonFieldClasses::fixed_unsigned},
        Type{"fixed-length-signed-integer", &JsonFieldClasses::fixed_signed},
        Type{"fixed-length-floating-point-number", &JsonFieldClasses::floating_point},
        Type{"variable-length-unsigned-integer", &JsonFieldClasses::variable_unsigned},
        Type{"variable-length-signed-integer", &JsonFieldClasses::variable_signed},
        Type{"null-terminated-string", &JsonFieldClasses::string},
        Type{"static-length-string", &JsonFieldClasses::static_string},
        Type{"dynamic-length-string", &JsonFieldClasses::dynamic_string},
        Type{"static-length-blob", &JsonFieldClasses::static_blob},
        Type{"dynamic-length-blob", &JsonFieldClasses::dynamic_blob},
        Type{"structure", &JsonFieldClasses::structure},
        Type{"static-length-array", &JsonFieldClasses::static_array},
        Type{"dynamic-length-array", &JsonFieldClasses::dynamic_array},
        Type{"optional", &JsonFieldClasses::optional},
        Type{"variant", &JsonFieldClasses::variant},
    };
    const auto* const found = std::ranges::find(kTypes, name, &Type::name);
    return found == kTypes.end() ? nullptr : found;
}

Result<StructClass> JsonFieldClasses::scope(const Json& value) {
    FieldClass parsed = LEAT_TRY(field_class(value));
    auto* const struct_class = parsed.as<StructClass>();
    if (struct_class == nullptr) return corrupt("expected a structure");
    return std::move(*struct_class);
}

Result<void> JsonFieldClasses::declare_alias(const Json& fragment) {
    const auto properties = LEAT_TRY(JsonProperties::open(fragment, {"type", "name", "field-class"}));
    FieldClass aliased = LEAT_TRY(field_class_of(properties, "field-class"));
    return types_.declare(LEAT_TRY(properties.text("name")), aliased);
}

// An object, or the name of an alias.
Result<FieldClass> JsonFieldClasses::field_class(const Json& value) {
    if (value.is_string()) return types_.copy(value.get<std::string>(), depth_);
    if (depth_ == kMaxFieldDepth) return corrupt("field classes are nested deeper than {} levels", kMaxFieldDepth);
    if (!value.is_object()) return corrupt("expected a field class, found {}", shown(value));
    const auto type = value.find("type");
    const Type* const known = type == value.end() || !type->is_string() ? nullptr : find_type(type->get<std::string>());
    if (known == nullptr)
        return corrupt("type: expected that of a field class, found {}", type == value.end() ? "none" : shown(*type));
    // After an error the depth may be anything, because parsing ends there.
    ++depth_;
    FieldClass parsed = LEAT_TRY((this->*known->parse)(value));
    --depth_;
    return parsed;
}

Result<FieldClass> JsonFieldClasses::field_class_of(const JsonProperties& properties, std::string_view name) {
    auto parsed = field_class(*LEAT_TRY(properties.get(name)));
    if (!parsed) return wrap(name, std::move(parsed).error());
    return parsed;
}

Result<FieldClass> JsonFieldClasses::bit_array(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {}, kFixedLength));
    return LEAT_TRY(bits(properties));
}

Result<FieldClass> JsonFieldClasses::bit_map(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"flags"}, kFixedLength));
    EnumClass map{.container = LEAT_TRY(bits(properties)), .is_bit_map = true};
    const Json* const flags = LEAT_TRY(properties.object("flags"));
    if (flags->empty() || flags->size() > kMaxFlags)
        return corrupt("flags: expected 1 to {}, found {}", kMaxFlags, flags->size());
    for (const auto& [label, bits_of_label] : flags->items()) {
        LEAT_TRY(types_.charge(sizeof(EnumRange) + label.size()));
        auto mask = mask_of(bits_of_label, map.container.size);
        if (!mask) return wrap("flags: " + shown(label), std::move(mask).error());
        map.ranges.push_back({label, *mask, *mask});
    }
    return map;
}

Result<FieldClass> JsonFieldClasses::boolean(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {}, kFixedLength));
    IntegerClass boolean = LEAT_TRY(fixed_length(properties));
    boolean.kind = IntegerKind::kBoolean;
    return boolean;
}

Result<FieldClass> JsonFieldClasses::fixed_unsigned(const Json& value) {
    const auto properties =
        LEAT_TRY(JsonProperties::open(value, {"preferred-display-base", "mappings", "roles"}, kFixedLength));
    return number(properties, LEAT_TRY(fixed_length(properties)));
}

Result<FieldClass> JsonFieldClasses::fixed_signed(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"preferred-display-base", "mappings"}, kFixedLength));
    IntegerClass integer = LEAT_TRY(fixed_length(properties));
    integer.is_signed = true;
    return number(properties, std::move(integer));
}

Result<FieldClass> JsonFieldClasses::variable_unsigned(const Json& value) {
    const auto properties =
        LEAT_TRY(JsonProperties::open(value, {"type", "preferred-display-base", "mappings", "roles"}));
    return number(properties, {.size = 64, .is_variable = true});
}

Result<FieldClass> JsonFieldClasses::variable_signed(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"type", "preferred-display-base", "mappings"}));
    return number(properties, {.size = 64, .is_signed = true, .is_variable = true});
}

Result<FieldClass> JsonFieldClasses::number(const JsonProperties& properties, IntegerClass integer) {
    integer.base = LEAT_TRY(display_base(properties));
    integer.role = LEAT_TRY(role(properties));
    const Json* const mappings = LEAT_TRY(properties.object("mappings"));
    if (mappings->empty()) return integer;
    return LEAT_TRY(labelled(*mappings, std::move(integer)));
}

Result<EnumClass> JsonFieldClasses::labelled(const Json& mappings, IntegerClass container) {
    EnumClass enumeration{.container = std::move(container)};
    for (const auto& [label, value] : mappings.items()) {
        auto parsed = ranges(value, enumeration.container.is_signed);
        if (!parsed) return wrap("mappings: " + shown(label), std::move(parsed).error());
        for (const Range& range : *parsed) {
            LEAT_TRY(types_.charge(sizeof(EnumRange) + label.size()));
            enumeration.ranges.push_back({label, range.lower, range.upper});
        }
    }
    if (enumeration.ranges.size() < EnumLabels::kMinRanges) return enumeration;
    enumeration.labels = EnumLabels::make(enumeration.ranges, enumeration.container.is_signed, types_.bytes_left());
    if (enumeration.labels == nullptr) return corrupt("mappings: too many ranges overlap");
    LEAT_TRY(types_.charge(enumeration.labels->size_bytes()));
    return enumeration;
}

Result<FieldClass> JsonFieldClasses::floating_point(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {}, kFixedLength));
    const std::uint64_t size = LEAT_TRY(properties.number("length", 1, UINT64_MAX));
    if (size != 32 && size != 64) return unsupported("length: floating point numbers have 32 or 64 bits, not {}", size);
    const IntegerClass bits = LEAT_TRY(fixed_length(properties));
    if (bits.is_reversed) return unsupported("bit-order: a floating point number with its bits in reverse");
    return FloatClass{.size = bits.size, .alignment = bits.alignment, .byte_order = bits.byte_order};
}

Result<FieldClass> JsonFieldClasses::string(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"type", "encoding"}));
    return StringClass{LEAT_TRY(encoding(properties))};
}

Result<FieldClass> JsonFieldClasses::static_string(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"type", "length", "encoding"}));
    const std::uint64_t length = LEAT_TRY(properties.number("length", 0, UINT64_MAX));
    return ArrayClass{.element = FieldClass(IntegerClass{.encoding = LEAT_TRY(encoding(properties))}),
                      .length = length};
}

Result<FieldClass> JsonFieldClasses::dynamic_string(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"type", kLengthLocation, "encoding"}));
    const Encoding characters = LEAT_TRY(encoding(properties));
    FieldPath length = LEAT_TRY(location(properties, kLengthLocation));
    return SequenceClass{.element = FieldClass(IntegerClass{.encoding = characters}), .length = std::move(length)};
}

Result<FieldClass> JsonFieldClasses::static_blob(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"type", "length", "media-type", "roles"}));
    LEAT_TRY(properties.text_or("media-type", ""));
    const std::uint64_t length = LEAT_TRY(properties.number("length", 0, UINT64_MAX));
    const Json* const roles = LEAT_TRY(properties.array("roles"));
    for (const Json& role : *roles)
        if (role != kUuidRole) return corrupt("roles: {} is not a role of a BLOB", shown(role));
    if (!roles->empty() && length != sizeof(Uuid)) return corrupt("length: a UUID has 16 bytes, not {}", length);
    return ArrayClass{.element = FieldClass(byte_of_blob()), .length = length};
}

Result<FieldClass> JsonFieldClasses::dynamic_blob(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"type", kLengthLocation, "media-type"}));
    LEAT_TRY(properties.text_or("media-type", ""));
    FieldPath length = LEAT_TRY(location(properties, kLengthLocation));
    return SequenceClass{.element = FieldClass(byte_of_blob()), .length = std::move(length)};
}

Result<FieldClass> JsonFieldClasses::structure(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"type", "member-classes", "minimum-alignment"}));
    StructClass structure{.members = {}, .minimum_alignment = LEAT_TRY(alignment(properties, "minimum-alignment"))};
    const Json* const members = LEAT_TRY(properties.array("member-classes"));
    std::set<std::string_view> names;
    for (const Json& member : *members) {
        structure.members.push_back(LEAT_TRY(this->member(member)));
        if (!names.insert(member["name"].get_ref<const std::string&>()).second)
            return corrupt("two members have the name {}", shown(member["name"]));
    }
    return structure;
}

Result<StructMember> JsonFieldClasses::member(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"name", "field-class"}));
    std::string name = LEAT_TRY(properties.text("name"));
    LEAT_TRY(types_.charge(sizeof(StructMember) + name.size()));
    auto parsed = field_class(*LEAT_TRY(properties.get("field-class")));
    if (!parsed) return wrap("member " + shown(name), std::move(parsed).error());
    return StructMember{name_in_model(name), *std::move(parsed)};
}

Result<FieldClass> JsonFieldClasses::static_array(const Json& value) {
    const auto properties =
        LEAT_TRY(JsonProperties::open(value, {"type", "length", "element-field-class", "minimum-alignment"}));
    const std::uint64_t length = LEAT_TRY(properties.number("length", 0, UINT64_MAX));
    const unsigned minimum = LEAT_TRY(alignment(properties, "minimum-alignment"));
    LEAT_TRY(types_.charge(sizeof(StructMember)));
    return ArrayClass{.element = LEAT_TRY(field_class_of(properties, "element-field-class")),
                      .length = length,
                      .minimum_alignment = minimum};
}

Result<FieldClass> JsonFieldClasses::dynamic_array(const Json& value) {
    const auto properties =
        LEAT_TRY(JsonProperties::open(value, {"type", kLengthLocation, "element-field-class", "minimum-alignment"}));
    const unsigned minimum = LEAT_TRY(alignment(properties, "minimum-alignment"));
    LEAT_TRY(types_.charge(sizeof(StructMember)));
    FieldClass element = LEAT_TRY(field_class_of(properties, "element-field-class"));
    FieldPath length = LEAT_TRY(location(properties, kLengthLocation));
    return SequenceClass{.element = std::move(element), .length = std::move(length), .minimum_alignment = minimum};
}

Result<FieldClass> JsonFieldClasses::optional(const Json& value) {
    const auto properties =
        LEAT_TRY(JsonProperties::open(value, {"type", "field-class", kSelectorLocation, kSelectorRanges}));
    LEAT_TRY(types_.charge(sizeof(StructMember)));
    VariantClass optional{.tag = LEAT_TRY(location(properties, kSelectorLocation)), .options = {}, .is_optional = true};
    optional.options.push_back({"", LEAT_TRY(field_class_of(properties, "field-class"))});
    if (properties.find(kSelectorRanges) != nullptr) LEAT_TRY(add_choices(optional, properties));
    return optional;
}

Result<FieldClass> JsonFieldClasses::variant(const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"type", "options", kSelectorLocation}));
    VariantClass variant{.tag = LEAT_TRY(location(properties, kSelectorLocation)), .options = {}};
    const Json* const options = LEAT_TRY(properties.array("options"));
    if (options->empty()) return corrupt("options: a variant needs one");
    std::set<std::string> names;
    for (const Json& value_of_option : *options) {
        auto added = add_option(variant, names, value_of_option);
        if (!added) return wrap(fmt::format("option {}", variant.options.size()), std::move(added).error());
    }
    return variant;
}

Result<void> JsonFieldClasses::add_option(VariantClass& variant, std::set<std::string>& names, const Json& value) {
    const auto properties = LEAT_TRY(JsonProperties::open(value, {"name", "field-class", kSelectorRanges}));
    const std::string name = LEAT_TRY(properties.text_or("name", ""));
    LEAT_TRY(types_.charge(sizeof(StructMember) + name.size()));
    if (properties.find("name") != nullptr && !names.insert(name).second)
        return corrupt("another option has the name {}", shown(name));
    FieldClass content = LEAT_TRY(field_class_of(properties, "field-class"));
    LEAT_TRY(add_choices(variant, properties));
    variant.options.push_back({name_in_model(name), std::move(content)});
    return {};
}

// The ranges that choose the next option. Only the class of the selector says whether it is signed: what fits into
// either kind is taken as it is.
Result<void> JsonFieldClasses::add_choices(VariantClass& variant, const JsonProperties& properties) {
    const Json& value = *LEAT_TRY(properties.get(kSelectorRanges));
    const auto option = static_cast<std::uint32_t>(variant.is_optional ? 0 : variant.options.size());
    auto parsed = ranges(value, true);
    const bool is_signed = parsed.has_value();
    if (!parsed) parsed = ranges(value, false);
    if (!parsed) return wrap(kSelectorRanges, std::move(parsed).error());
    LEAT_TRY(types_.charge(parsed->size() * sizeof(VariantChoice)));
    for (const Range& range : *parsed) {
        const bool is_negative = is_signed && static_cast<std::int64_t>(range.lower) < 0;
        variant.choices.push_back({range.lower, range.upper, option, is_negative});
    }
    return {};
}

// Elements that are null lead one struct up, and may take a name back.
Result<FieldPath> JsonFieldClasses::location(const JsonProperties& properties, std::string_view name) {
    const Json& value = *LEAT_TRY(properties.get(name));
    const auto unusable = [&] { return corrupt("{}: expected a path to a field, found {}", name, shown(value)); };
    if (!value.is_object() || !value.contains("path") || value.size() != (value.contains("origin") ? 2U : 1U))
        return unusable();
    const Json& elements = value["path"];
    if (!elements.is_array() || elements.empty() || elements.back().is_null()) return unusable();
    FieldPath path{"."};
    if (value.contains("origin")) {
        const Json& origin = value["origin"];
        const auto* const known = origin.is_string() ? find_named(kOrigins, origin.get<std::string>()) : nullptr;
        if (known == nullptr) return corrupt("{}: {} is not a scope", name, shown(origin));
        path = {"/"};
        for (const std::string_view word : known->words)
            if (!word.empty()) path.emplace_back(word);
    }
    const std::size_t root = path.size();
    for (const Json& element : elements) {
        if (!element.is_string() && !element.is_null()) return unusable();
        LEAT_TRY(types_.charge(sizeof(std::string)));
        if (element.is_string()) {
            path.push_back(name_in_model(element.get_ref<const std::string&>()));
            LEAT_TRY(types_.charge(path.back().size()));
        } else if (path.size() > root && path.back() != "..") {
            path.pop_back();
        } else if (value.contains("origin")) {
            return corrupt("{}: it leads out of its scope", name);
        } else {
            path.emplace_back("..");
        }
    }
    return path;
}

}  // namespace leat::ctf
