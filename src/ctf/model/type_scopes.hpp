#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/field_class.hpp"

namespace leat::ctf {

// Deeper field classes are refused, because all code that walks field classes is recursive.
inline constexpr unsigned kMaxFieldDepth = 64;

// Of a number or a text: 1.
unsigned field_depth(const FieldClass& field_class);

// The named types of a metadata text in nested scopes: `typealias ... := name`, `struct name`, `enum name` in TSDL.
//
// Each use of a name copies its type. A short text can ask for 2^60 copies (a struct of two structs of two...), so the
// total size of all copies is limited.
class TypeScopes {
  public:
    TypeScopes() : scopes_(1) {}

    void push() { scopes_.emplace_back(); }
    void pop() { scopes_.pop_back(); }

    // Fails if the innermost scope has the name already.
    Result<void> declare(std::string name, const FieldClass& field_class);

    // Returns a copy of the type that has this name in the nearest scope. It is to be used `depth` levels below the
    // outermost struct.
    Result<FieldClass> copy(std::string_view name, unsigned depth);

    // Counts memory that the text causes us to keep.
    Result<void> charge(std::size_t bytes);
    Result<void> charge_copy(const FieldClass& field_class);
    [[nodiscard]] std::size_t bytes_left() const;

  private:
    struct NamedType {
        FieldClass field_class;
        std::size_t bytes;
        unsigned depth;
    };

    [[nodiscard]] const NamedType* find(std::string_view name) const;

    std::vector<std::map<std::string, NamedType, std::less<>>> scopes_;
    std::size_t bytes_held_ = 0;
};

}  // namespace leat::ctf
