#include "viewer/filter/filter_value.hpp"

#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "base/pattern.hpp"

namespace leat::viewer {
namespace {

using Kind = FilterValue::Kind;

constexpr FilterValue kInvalid{};
constexpr FilterValue kAbsent{.kind = Kind::kAbsent};
constexpr FilterValue kUnknown{.kind = Kind::kUnknown};

bool is_number(const FilterValue& value) { return value.kind == Kind::kInteger || value.kind == Kind::kReal; }
bool is_text(const FilterValue& value) { return value.kind == Kind::kText || value.kind == Kind::kPattern; }
std::uint64_t bits_of(const FilterValue& value) { return static_cast<std::uint64_t>(value.integer); }
double real_of(const FilterValue& value) {
    if (value.kind == Kind::kReal) return value.real;
    return value.is_unsigned ? static_cast<double>(bits_of(value)) : static_cast<double>(value.integer);
}
// Of integers, these are in the order of their values.
std::pair<bool, std::uint64_t> rank_of(const FilterValue& value) {
    return {value.is_unsigned || value.integer >= 0, bits_of(value)};
}

std::optional<bool> truth(const FilterValue& value) {
    if (value.kind == Kind::kInteger) return value.integer != 0;
    if (value.kind == Kind::kReal) return value.real != 0;
    return std::nullopt;
}

FilterValue unary(FilterOp op, const FilterValue& value) {
    if (value.kind == Kind::kUnknown) return kUnknown;
    if (value.kind == Kind::kAbsent) return kAbsent;
    if (op == FilterOp::kNot) {
        const auto is_true = truth(value);
        return is_true ? integer_value(*is_true ? 0 : 1) : kInvalid;
    }
    if (op == FilterOp::kMinus && value.kind == Kind::kReal) return real_value(-value.real);
    if (value.kind != Kind::kInteger) return kInvalid;
    const std::uint64_t bits = bits_of(value);
    if (op == FilterOp::kMinus) return integer_value(static_cast<std::int64_t>(-bits));
    return value.is_unsigned ? unsigned_value(~bits) : integer_value(static_cast<std::int64_t>(~bits));
}

// Whether the value may be true or false in an event.
bool has_truth(const FilterValue& value) {
    return truth(value) || value.kind == Kind::kUnknown || value.kind == Kind::kAbsent;
}

FilterValue logical(FilterOp op, const FilterValue& left, const FilterValue& right) {
    if (!has_truth(left) || !has_truth(right)) return kInvalid;
    if (left.kind == Kind::kAbsent) return kAbsent;
    const auto is_left = truth(left);
    if (!is_left) return kUnknown;
    // LTTng does not look at the right side then: `len > 2 && list[2] == 5`.
    if (right.kind == Kind::kAbsent)
        return *is_left == (op == FilterOp::kOr) ? integer_value(*is_left ? 1 : 0) : kAbsent;
    const auto is_right = truth(right);
    if (!is_right) return kUnknown;
    return integer_value((op == FilterOp::kOr ? *is_left || *is_right : *is_left && *is_right) ? 1 : 0);
}

FilterValue bitwise(FilterOp op, const FilterValue& left, const FilterValue& right) {
    if (left.kind != Kind::kInteger || right.kind != Kind::kInteger) return kInvalid;
    const std::uint64_t a = bits_of(left);
    const std::uint64_t b = bits_of(right);
    const bool is_shift = op == FilterOp::kShiftLeft || op == FilterOp::kShiftRight;
    if (is_shift && b >= 64) return kInvalid;
    const bool is_unsigned = left.is_unsigned || (right.is_unsigned && !is_shift);
    const auto result = [&]() -> std::uint64_t {
        switch (op) {
            case FilterOp::kShiftLeft:
                return a << b;
            case FilterOp::kShiftRight:
                return a >> b;
            case FilterOp::kBitAnd:
                return a & b;
            case FilterOp::kBitXor:
                return a ^ b;
            default:
                return a | b;
        }
    };
    return is_unsigned ? unsigned_value(result()) : integer_value(static_cast<std::int64_t>(result()));
}

template <class T>
bool compared(FilterOp op, const T& left, const T& right) {
    switch (op) {
        case FilterOp::kLess:
            return left < right;
        case FilterOp::kLessEqual:
            return left <= right;
        case FilterOp::kGreater:
            return left > right;
        case FilterOp::kGreaterEqual:
            return left >= right;
        case FilterOp::kEqual:
            return left == right;
        default:
            return left != right;
    }
}

bool is_equal_text(const FilterValue& left, const FilterValue& right) {
    if (right.kind == Kind::kPattern) return matches_pattern(right.text, left.plain);
    if (left.kind == Kind::kPattern) return matches_pattern(left.text, right.plain);
    return left.plain == right.plain;
}

FilterValue comparison(FilterOp op, const FilterValue& left, const FilterValue& right) {
    if (is_text(left) && is_text(right)) {
        if (op == FilterOp::kEqual || op == FilterOp::kNotEqual)
            return integer_value(is_equal_text(left, right) == (op == FilterOp::kEqual) ? 1 : 0);
        return integer_value(compared(op, left.plain, right.plain) ? 1 : 0);
    }
    if (!is_number(left) || !is_number(right)) return kInvalid;
    if (left.kind == Kind::kInteger && right.kind == Kind::kInteger) {
        const bool is_of_bits = op == FilterOp::kEqual || op == FilterOp::kNotEqual;
        const bool is_true =
            is_of_bits ? compared(op, bits_of(left), bits_of(right)) : compared(op, rank_of(left), rank_of(right));
        return integer_value(is_true ? 1 : 0);
    }
    return integer_value(compared(op, real_of(left), real_of(right)) ? 1 : 0);
}

}  // namespace

bool is_true(const FilterValue& value) { return truth(value).value_or(false); }

std::optional<std::string> key_of(const FilterValue& value) {
    constexpr std::size_t kLongest = 64;
    switch (value.kind) {
        case Kind::kInteger:
            return value.is_unsigned ? fmt::format("{}", bits_of(value)) : fmt::format("{}", value.integer);
        case Kind::kReal:
            if (std::isnan(value.real)) return std::nullopt;  // it equals nothing
            return fmt::format("{}", value.real == 0 ? 0.0 : value.real);
        case Kind::kText:
        case Kind::kPattern:
            if (value.plain.size() <= kLongest) return fmt::format("\"{}", value.plain);
            return fmt::format("\"{}#{}#{}", value.plain.substr(0, kLongest), value.plain.size(),
                               std::hash<std::string_view>()(value.plain));
        default:
            return std::nullopt;
    }
}

FilterValue apply(FilterOp op, const FilterValue& left, const FilterValue& right) {
    switch (op) {
        case FilterOp::kMinus:
        case FilterOp::kNot:
        case FilterOp::kComplement:
            return unary(op, left);
        case FilterOp::kAnd:
        case FilterOp::kOr:
            return logical(op, left, right);
        default:
            break;
    }
    if (left.kind == Kind::kInvalid || right.kind == Kind::kInvalid) return kInvalid;
    if (left.kind == Kind::kAbsent || right.kind == Kind::kAbsent) return kAbsent;
    if (left.kind == Kind::kUnknown || right.kind == Kind::kUnknown) return kUnknown;
    return FilterOp::kShiftLeft <= op && op <= FilterOp::kBitOr ? bitwise(op, left, right)
                                                                : comparison(op, left, right);
}

}  // namespace leat::viewer
