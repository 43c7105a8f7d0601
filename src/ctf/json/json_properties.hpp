#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace leat::ctf {

using Json = nlohmann::json;

// The properties of a JSON object in the metadata of CTF 2. Errors begin with the name of the property.
class JsonProperties {
  public:
    // An unknown property may change what the others mean, so it is refused, and so are extensions, which are there to
    // do that. Attributes never change it. The value must outlive the object.
    // `names` and `more` are those that there may be.
    static Result<JsonProperties> open(const Json& value, std::initializer_list<std::string_view> names,
                                       std::span<const std::string_view> more = {});

    // Null if there is none.
    [[nodiscard]] const Json* find(std::string_view name) const;
    [[nodiscard]] Result<const Json*> get(std::string_view name) const;

    [[nodiscard]] Result<std::string> text(std::string_view name) const;
    [[nodiscard]] Result<std::string> text_or(std::string_view name, std::string_view otherwise) const;
    // A number in this range, both bounds included. Without `otherwise`, it must be there.
    [[nodiscard]] Result<std::uint64_t> number(std::string_view name, std::uint64_t lowest, std::uint64_t highest,
                                               std::optional<std::uint64_t> otherwise = {}) const;
    // An empty one if there is none.
    [[nodiscard]] Result<const Json*> array(std::string_view name) const;
    [[nodiscard]] Result<const Json*> object(std::string_view name) const;

  private:
    explicit JsonProperties(const Json& value) : value_(&value) {}

    const Json* value_;
};

// A name as people see it: control characters become escapes, "\\n" or "\\x1b", so that it stays in its line.
[[nodiscard]] std::string escaped(std::string_view name);

// The bits of an integer of this kind; nothing: the value is another one, or another thing.
[[nodiscard]] std::optional<std::uint64_t> integer_bits(const Json& value, bool is_signed);

// What is there, for errors: short, whatever it is.
[[nodiscard]] std::string shown(const Json& value);

}  // namespace leat::ctf
