// Values that a filter computes with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "viewer/filter/filter_expression.hpp"

namespace leat::viewer {

// Numbers are integers of 64 bits, or double if one side of an operator is. Those of 2^63 and more are not negative,
// which LTTng's filters take them for, but they are equal to the same bits.
struct FilterValue {
    enum class Kind : std::uint8_t {
        kInvalid,  // nothing that an operator takes: the filter refuses the event, whatever else it says
        kAbsent,   // a part that this event lacks: the same, unless the left side of && or || decides before
        kUnknown,  // not yet: the event has not been decoded
        kInteger,
        kReal,
        kText,
        kPattern,  // text of the filter itself
    };

    Kind kind = Kind::kInvalid;
    std::int64_t integer = 0;
    bool is_unsigned = false;  // the integer is that of the same bits without a sign
    double real = 0;
    std::string_view text{};   // of kPattern: in which `*` is any text
    std::string_view plain{};  // of kPattern: the same without escapes
};

[[nodiscard]] constexpr FilterValue integer_value(std::int64_t integer) {
    return {.kind = FilterValue::Kind::kInteger, .integer = integer};
}
[[nodiscard]] constexpr FilterValue unsigned_value(std::uint64_t bits) {
    FilterValue value = integer_value(static_cast<std::int64_t>(bits));
    value.is_unsigned = true;
    return value;
}
[[nodiscard]] constexpr FilterValue real_value(double real) { return {.kind = FilterValue::Kind::kReal, .real = real}; }
[[nodiscard]] constexpr FilterValue text_value(std::string_view text) {
    return {.kind = FilterValue::Kind::kText, .text = text, .plain = text};
}

// Whether an event of which a filter says this is chosen: it is a number other than 0.
[[nodiscard]] bool is_true(const FilterValue& value);

// A text by which equal values are found again, and no others but by a rare chance; none: it is no value. Short, also
// if the value is a long text.
[[nodiscard]] std::optional<std::string> key_of(const FilterValue& value);

// Of unary operators, `right` means nothing.
[[nodiscard]] FilterValue apply(FilterOp op, const FilterValue& left, const FilterValue& right);

}  // namespace leat::viewer
