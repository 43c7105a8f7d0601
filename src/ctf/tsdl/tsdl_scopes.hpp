#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/field_class.hpp"

namespace leat::ctf {

// Deeper field classes are refused: everything that walks one is recursive.
inline constexpr unsigned kMaxFieldDepth = 64;

// The named types of a TSDL text, scope within scope: `typealias ... := name`, `struct name`, `enum name`...
//
// A use of a name copies the type, and a short text can ask for 2^60 copies (a struct of two structs of two...), so
// the bytes of all copies together are limited.
class TsdlScopes {
  public:
    TsdlScopes() : scopes_(1) {}

    void push() { scopes_.emplace_back(); }
    void pop() { scopes_.pop_back(); }

    // Fails if the innermost scope has the name already.
    Result<void> declare(std::string name, const FieldClass& field_class);

    // A copy of what the nearest scope calls so, to be used `depth` levels below the outermost struct.
    Result<FieldClass> copy(std::string_view name, unsigned depth);

    // Counts memory that the text makes us hold.
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
