#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "ctf/json/json_properties.hpp"
#include "ctf/model/field_class.hpp"
#include "ctf/model/type_scopes.hpp"

namespace leat::ctf {

// The field classes in the metadata of CTF 2 ([CTF-2], "Field classes"), and their aliases. Errors lead from the
// outermost field class to the property that is wrong.
//
// Classes that the model of CTF 1.8 has no name for are what they look like to a reader: a BLOB is an array of bytes,
// a string with a length an array of characters, an optional field a variant with one option.
class JsonFieldClasses {
  public:
    // The struct of a scope.
    Result<StructClass> scope(const Json& value);
    Result<void> declare_alias(const Json& fragment);

    // Counts memory that the caller keeps. It has the same limit as the field classes.
    Result<void> charge(std::size_t bytes) { return types_.charge(bytes); }

  private:
    using Parse = Result<FieldClass> (JsonFieldClasses::*)(const Json& value);
    struct Type {
        std::string_view name;
        Parse parse;
    };
    static const Type* find_type(std::string_view name);

    Result<FieldClass> field_class(const Json& value);
    Result<FieldClass> field_class_of(const JsonProperties& properties, std::string_view name);

    Result<FieldClass> bit_array(const Json& value);
    Result<FieldClass> bit_map(const Json& value);
    Result<FieldClass> boolean(const Json& value);
    Result<FieldClass> fixed_unsigned(const Json& value);
    Result<FieldClass> fixed_signed(const Json& value);
    Result<FieldClass> floating_point(const Json& value);
    Result<FieldClass> variable_unsigned(const Json& value);
    Result<FieldClass> variable_signed(const Json& value);
    Result<FieldClass> string(const Json& value);
    Result<FieldClass> static_string(const Json& value);
    Result<FieldClass> dynamic_string(const Json& value);
    Result<FieldClass> static_blob(const Json& value);
    Result<FieldClass> dynamic_blob(const Json& value);
    Result<FieldClass> structure(const Json& value);
    Result<FieldClass> static_array(const Json& value);
    Result<FieldClass> dynamic_array(const Json& value);
    Result<FieldClass> optional(const Json& value);
    Result<FieldClass> variant(const Json& value);

    Result<FieldClass> number(const JsonProperties& properties, IntegerClass integer);
    Result<EnumClass> labelled(const Json& mappings, IntegerClass container);
    Result<void> add_option(VariantClass& variant, std::set<std::string>& names, const Json& value);
    Result<void> add_choices(VariantClass& variant, const JsonProperties& properties);
    Result<FieldPath> location(const JsonProperties& properties, std::string_view name);
    Result<StructMember> member(const Json& value);

    TypeScopes types_;
    unsigned depth_ = 0;  // of field classes within field classes
};

}  // namespace leat::ctf
