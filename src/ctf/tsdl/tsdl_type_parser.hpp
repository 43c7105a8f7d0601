#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/field_class.hpp"
#include "ctf/tsdl/tsdl_attributes.hpp"
#include "ctf/tsdl/tsdl_scopes.hpp"
#include "ctf/tsdl/tsdl_tokens.hpp"

namespace leat::ctf {

// The part of the TSDL grammar that speaks of types: `struct {...}`, `integer {...}`, `enum : t {...}`, declarators
// with their brackets, and the declarations that give types a name.
class TsdlTypeParser {
  public:
    // `native` is the byte order of the fields that do not state one. The tokens must outlive the parser.
    TsdlTypeParser(TsdlTokens& tokens, ByteOrder native) : tokens_(tokens), native_(native) {}

    // All that stands before a declarator: `struct point`, `unsigned long`, `integer { size = 8; }`, `my_t`.
    Result<FieldClass> type();

    // Whether a declaration of a type begins here, and that declaration with its semicolon.
    [[nodiscard]] bool at_declaration() const;
    Result<void> declaration();

    // What is declared between the two is known there only.
    void push_scope() { scopes_.push(); }
    void pop_scope() { scopes_.pop(); }

    // Text that the caller keeps counts towards the same limit as the types do.
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
    Result<FieldClass> dimensions(FieldClass element, unsigned depth);
    Result<FieldPath> path();

    Result<std::string> tag_name();
    Result<void> declare(std::string name, const FieldClass& field_class);
    Result<FieldClass> copy(std::string_view name);

    TsdlTokens& tokens_;
    ByteOrder native_;
    TsdlScopes scopes_;
    unsigned depth_ = 0;  // of types within types
};

}  // namespace leat::ctf
