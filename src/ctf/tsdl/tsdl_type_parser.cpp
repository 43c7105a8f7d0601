#include "ctf/tsdl/tsdl_type_parser.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

namespace leat::ctf {
namespace {

constexpr std::array<std::string_view, 11> kTypeWords{"void",   "char",   "short",    "int",   "long",    "float",
                                                      "double", "signed", "unsigned", "_Bool", "_Complex"};

bool is_type_word(std::string_view word) { return std::ranges::find(kTypeWords, word) != kTypeWords.end(); }

}  // namespace

Result<FieldClass> TsdlTypeParser::type() {
    if (depth_ == kMaxFieldDepth)
        return corrupt("line {}: types are nested deeper than {} levels", tokens_.peek().line, kMaxFieldDepth);
    // After an error the scopes may be in any state, because parsing ends there.
    ++depth_;
    FieldClass field_class = LEAT_TRY(type_within_limits());
    --depth_;
    return field_class;
}

Result<FieldClass> TsdlTypeParser::type_within_limits() {
    while (LEAT_TRY(tokens_.accept("const"))) continue;
    if (LEAT_TRY(tokens_.accept("integer"))) return LEAT_TRY(parse_integer_block(tokens_, native_));
    if (LEAT_TRY(tokens_.accept("floating_point"))) return LEAT_TRY(parse_float_block(tokens_, native_));
    if (LEAT_TRY(tokens_.accept("string"))) {
        if (!tokens_.at("{")) return StringClass{};
        return LEAT_TRY(parse_string_block(tokens_));
    }
    if (LEAT_TRY(tokens_.accept("struct"))) return struct_type();
    if (LEAT_TRY(tokens_.accept("variant"))) return variant_type();
    if (LEAT_TRY(tokens_.accept("enum"))) return enum_type();
    return named_type();
}

Result<FieldClass> TsdlTypeParser::struct_type() {
    const std::string name = LEAT_TRY(tag_name());
    if (!tokens_.at("{")) return copy("struct " + name);
    StructClass struct_class{.members = LEAT_TRY(members())};
    if (LEAT_TRY(tokens_.accept("align"))) {
        LEAT_TRY(tokens_.expect("("));
        struct_class.minimum_alignment = LEAT_TRY(parse_alignment(tokens_));
        LEAT_TRY(tokens_.expect(")"));
    }
    FieldClass field_class = std::move(struct_class);
    if (!name.empty()) LEAT_TRY(declare("struct " + name, field_class));
    return field_class;
}

// A variant may get its tag at its use only: `variant v { ... };` and later `variant v <tag> field;`.
Result<FieldClass> TsdlTypeParser::variant_type() {
    const std::string name = LEAT_TRY(tag_name());
    FieldPath tag;
    if (LEAT_TRY(tokens_.accept("<"))) {
        tag = LEAT_TRY(path());
        LEAT_TRY(tokens_.expect(">"));
    }
    if (tokens_.at("{")) {
        std::vector<StructMember> options = LEAT_TRY(members());
        FieldClass variant = VariantClass{std::move(tag), std::move(options)};
        if (!name.empty()) LEAT_TRY(declare("variant " + name, variant));
        return variant;
    }
    FieldClass variant = LEAT_TRY(copy("variant " + name));
    if (!tag.empty()) variant.as<VariantClass>()->tag = std::move(tag);
    return variant;
}

Result<FieldClass> TsdlTypeParser::enum_type() {
    const std::string name = LEAT_TRY(tag_name());
    if (!tokens_.at(":") && !tokens_.at("{")) return copy("enum " + name);
    FieldClass enumeration = LEAT_TRY(enum_body(LEAT_TRY(enum_container())));
    if (!name.empty()) LEAT_TRY(declare("enum " + name, enumeration));
    return enumeration;
}

Result<IntegerClass> TsdlTypeParser::enum_container() {
    const bool is_stated = LEAT_TRY(tokens_.accept(":"));
    const FieldClass container = is_stated ? LEAT_TRY(type()) : LEAT_TRY(copy("int"));
    const auto* integer = container.as<IntegerClass>();
    if (integer == nullptr) return tokens_.expected("an integer as the enum's container");
    return *integer;
}

Result<FieldClass> TsdlTypeParser::enum_body(IntegerClass container) {
    EnumClass enumeration{std::move(container)};
    LEAT_TRY(tokens_.expect("{"));
    while (!tokens_.at("}")) {
        enumeration.ranges.push_back(LEAT_TRY(enum_entry(enumeration)));
        LEAT_TRY(scopes_.charge(sizeof(EnumRange) + enumeration.ranges.back().label.size()));
        if (!LEAT_TRY(tokens_.accept(","))) break;
    }
    LEAT_TRY(tokens_.expect("}"));
    if (enumeration.ranges.size() < EnumLabels::kMinRanges) return enumeration;
    enumeration.labels = EnumLabels::make(enumeration.ranges, enumeration.container.is_signed, scopes_.bytes_left());
    if (enumeration.labels == nullptr)
        return corrupt("line {}: the enum before this has too many ranges that overlap", tokens_.peek().line);
    LEAT_TRY(scopes_.charge(enumeration.labels->size_bytes()));
    return enumeration;
}

// `LABEL`, `LABEL = 3`, `LABEL = 3 ... 5`
Result<EnumRange> TsdlTypeParser::enum_entry(const EnumClass& enumeration) {
    EnumRange range{LEAT_TRY(parse_text(tokens_))};
    if (!LEAT_TRY(tokens_.accept("="))) {
        range.lower = range.upper = enumeration.ranges.empty() ? 0 : enumeration.ranges.back().upper + 1;
        return range;
    }
    range.lower = range.upper = LEAT_TRY(parse_signed_number(tokens_)).bits;
    if (LEAT_TRY(tokens_.accept("..."))) range.upper = LEAT_TRY(parse_signed_number(tokens_)).bits;
    if (!is_at_most(range.lower, range.upper, enumeration.container.is_signed))
        return tokens_.expected(
            fmt::format("a range of the enum label \"{}\" that ends where or after it begins", range.label));
    return range;
}

Result<FieldClass> TsdlTypeParser::named_type() {
    const std::string name = LEAT_TRY(type_name());
    FieldClass field_class = LEAT_TRY(copy(name));
    // A pointer is shown as an address, whatever its integer type.
    if (auto* integer = field_class.as<IntegerClass>(); integer != nullptr && name.ends_with('*'))
        integer->base = DisplayBase::kHexadecimal;
    return field_class;
}

// One name, or the words of a C type (`unsigned long`), and asterisks: `void *`.
Result<std::string> TsdlTypeParser::type_name() {
    std::string name(LEAT_TRY(tokens_.expect_word("a type")).text);
    if (is_keyword(name) && !is_type_word(name))
        return corrupt("line {}: a type expected, found the keyword '{}'", tokens_.peek().line, name);
    while (is_type_word(tokens_.peek().text)) name += fmt::format(" {}", LEAT_TRY(tokens_.take()).text);
    while (tokens_.at("*") || tokens_.at("const"))
        if (LEAT_TRY(tokens_.take()).text == "*") name += " *";
    return name;
}

bool TsdlTypeParser::at_declaration() const {
    return tokens_.at("typealias") || tokens_.at("typedef") || tokens_.at("struct") || tokens_.at("variant") ||
           tokens_.at("enum");
}

Result<void> TsdlTypeParser::declaration() {
    if (LEAT_TRY(tokens_.accept("typealias"))) return type_alias();
    if (LEAT_TRY(tokens_.accept("typedef"))) return type_definition();
    LEAT_TRY(type());
    return tokens_.expect(";");
}

// `typealias integer { ... } := unsigned long;`, `typealias uint8_t [16] := uuid_t;`
Result<void> TsdlTypeParser::type_alias() {
    const FieldClass aliased = LEAT_TRY(brackets(LEAT_TRY(type())));
    LEAT_TRY(tokens_.expect(":="));
    LEAT_TRY(declare(LEAT_TRY(type_name()), aliased));
    return tokens_.expect(";");
}

// `typedef uint8_t byte, pair[2];`
Result<void> TsdlTypeParser::type_definition() {
    const FieldClass base = LEAT_TRY(type());
    do {
        StructMember definition = LEAT_TRY(declarator(base));
        LEAT_TRY(declare(std::move(definition.name), definition.field_class));
    } while (LEAT_TRY(tokens_.accept(",")));
    return tokens_.expect(";");
}

Result<std::vector<StructMember>> TsdlTypeParser::members() {
    std::vector<StructMember> members;
    std::set<std::string, std::less<>> names;
    LEAT_TRY(tokens_.expect("{"));
    scopes_.push();
    while (!tokens_.at("}")) {
        if (tokens_.at("typealias") || tokens_.at("typedef")) {
            LEAT_TRY(declaration());
            continue;
        }
        for (StructMember& member : LEAT_TRY(member_declaration())) {
            if (!names.insert(member.name).second)
                return corrupt("line {}: field '{}' is declared twice", tokens_.peek().line, member.name);
            members.push_back(std::move(member));
        }
    }
    scopes_.pop();
    LEAT_TRY(tokens_.expect("}"));
    return members;
}

// `uint8_t a, b[2];`
Result<std::vector<StructMember>> TsdlTypeParser::member_declaration() {
    const FieldClass base = LEAT_TRY(type());
    std::vector<StructMember> members;
    do {
        members.push_back(LEAT_TRY(declarator(base)));
        // Each declarator copies the type before it.
        LEAT_TRY(scopes_.charge_copy(members.back().field_class));
    } while (LEAT_TRY(tokens_.accept(",")));
    LEAT_TRY(tokens_.expect(";"));
    return members;
}

Result<StructMember> TsdlTypeParser::declarator(FieldClass base) {
    if (is_keyword(tokens_.peek().text)) return tokens_.expected("the name of a field");
    const TsdlToken name = LEAT_TRY(tokens_.expect_word("the name of a field"));
    FieldClass field_class = LEAT_TRY(brackets(std::move(base)));
    return StructMember{std::string(name.text), std::move(field_class)};
}

// Those around the levels of the type before them, which may have brackets itself.
Result<FieldClass> TsdlTypeParser::brackets(FieldClass base) {
    const unsigned levels_below = tokens_.at("[") ? field_depth(base) - 1 : 0;
    return dimensions(std::move(base), depth_ + levels_below);
}

// Parses `[2][n]`, an array of 2 sequences: the last bracket is the innermost.
Result<FieldClass> TsdlTypeParser::dimensions(FieldClass element, unsigned depth) {
    if (!LEAT_TRY(tokens_.accept("["))) return element;
    if (depth >= kMaxFieldDepth) return tokens_.expected("fewer dimensions");
    if (tokens_.at(TsdlToken::Kind::kNumber)) {
        const std::uint64_t length = LEAT_TRY(tokens_.take()).number;
        LEAT_TRY(tokens_.expect("]"));
        return ArrayClass{LEAT_TRY(dimensions(std::move(element), depth + 1)), length};
    }
    FieldPath length = LEAT_TRY(path());
    LEAT_TRY(tokens_.expect("]"));
    if (const auto known = LEAT_TRY(environment_length(length)))
        return ArrayClass{LEAT_TRY(dimensions(std::move(element), depth + 1)), *known};
    return SequenceClass{LEAT_TRY(dimensions(std::move(element), depth + 1)), std::move(length)};
}

// `env.cpus`, where the environment has it.
Result<std::optional<std::uint64_t>> TsdlTypeParser::environment_length(const FieldPath& path) const {
    if (path.size() != 2 || path.front() != "env") return std::nullopt;
    const auto entry = std::ranges::find(environment_, path.back(), &EnvironmentEntry::name);
    if (entry == environment_.end()) return std::nullopt;
    const auto* const length = std::get_if<std::int64_t>(&entry->value);
    if (length == nullptr || *length < 0)
        return corrupt("line {}: env.{} is no length", tokens_.peek().line, path.back());
    return static_cast<std::uint64_t>(*length);
}

// `len`, `event.fields.len`, `stream.event.header->id`
Result<FieldPath> TsdlTypeParser::path() {
    FieldPath path;
    do {
        path.emplace_back(LEAT_TRY(tokens_.expect_word("the name of a field")).text);
        LEAT_TRY(scopes_.charge(sizeof(std::string) + path.back().size()));
    } while (LEAT_TRY(tokens_.accept(".")) || LEAT_TRY(tokens_.accept("->")));
    return path;
}

// The name after `struct`, `enum` or `variant`, if there is one.
Result<std::string> TsdlTypeParser::tag_name() {
    if (!tokens_.at(TsdlToken::Kind::kWord)) return std::string();
    if (is_keyword(tokens_.peek().text)) return tokens_.expected("a name or '{'");
    return std::string(LEAT_TRY(tokens_.take()).text);
}

Result<void> TsdlTypeParser::declare(std::string name, const FieldClass& field_class) {
    auto declared = scopes_.declare(std::move(name), field_class);
    if (!declared) return wrap(fmt::format("line {}", tokens_.peek().line), std::move(declared).error());
    return {};
}

Result<FieldClass> TsdlTypeParser::copy(std::string_view name) {
    auto field_class = scopes_.copy(name, depth_);
    if (!field_class) return wrap(fmt::format("line {}", tokens_.peek().line), std::move(field_class).error());
    return field_class;
}

}  // namespace leat::ctf
