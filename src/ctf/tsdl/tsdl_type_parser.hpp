#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/field_class.hpp"
#include "ctf/model/trace_class.hpp"
#include "ctf/model/type_scopes.hpp"
#include "ctf/tsdl/tsdl_attributes.hpp"
#include "ctf/tsdl/tsdl_tokens.hpp"

namespace leat::ctf {

// The part of the TSDL grammar about types: `struct {...}`, `integer {...}`, `enum : t {...}`, declarators with their
// brackets, and the declarations that name types.
class TsdlTypeParser {
  public:
    // `native` is the byte order of fields that do not state one. `environment` is that of the trace, as far as it has
    // been read: it may have lengths of arrays. The tokens and the environment must outlive the parser.
    TsdlTypeParser(TsdlTokens& tokens, ByteOrder native, const std::vector<EnvironmentEntry>& environment)
        : tokens_(tokens), native_(native), environment_(environment) {}

    // Parses everything before a declarator: `struct point`, `unsigned long`, `integer { size = 8; }`, `my_t`.
    Result<FieldClass> type();

    // at_declaration() says whether a declaration of a type begins here. declaration() takes it with its semicolon.
    [[nodiscard]] bool at_declaration() const;
    Result<void> declaration();

    // Types that are declared between the two calls are known only there.
    void push_scope() { scopes_.push(); }
    void pop_scope() { scopes_.pop(); }

    // Counts text that the caller keeps. It has the same limit as the types.
    Result<void> charge(std::size_t bytes) { return scopes_.charge(bytes); }

  private:
    Result<FieldClass> type_within_limits();
    Result<FieldClass> struct_type();
    Result<FieldClass> variant_type();
    Result<FieldClass> enum_type();
    Result<FieldClass> enum_body(IntegerClass container);
    Result<EnumRange> enum_entry(const EnumClass& enumeration);
    Result<IntegerClass> enum_container();
    Result<FieldClass> named_type();
    Result<std::string> type_name();

    Result<void> type_alias();
    Result<void> type_definition();
    Result<std::vector<StructMember>> members();
    Result<std::vector<StructMember>> member_declaration();
    Result<StructMember> declarator(FieldClass base);
    Result<FieldClass> brackets(FieldClass base);
    Result<FieldClass> dimensions(FieldClass element, unsigned depth);
    Result<std::optional<std::uint64_t>> environment_length(const FieldPath& path) const;
    Result<FieldPath> path();

    Result<std::string> tag_name();
    Result<void> declare(std::string name, const FieldClass& field_class);
    Result<FieldClass> copy(std::string_view name);

    TsdlTokens& tokens_;
    ByteOrder native_;
    const std::vector<EnvironmentEntry>& environment_;
    TypeScopes scopes_;
    unsigned depth_ = 0;  // of types within types
};

}  // namespace leat::ctf
