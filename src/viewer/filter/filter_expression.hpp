// The text of a filter as a tree: what `leat view --filter` takes.
//
//     $ctx.vpid == 42 && (name == "key*" || sizes[0] & 0x3)
//
// Operands, operators and their precedence are those of LTTng's filters ([LTTng-2.13], lttng-enable-event(1), "Filter
// expression"): payload fields, `$ctx.NAME`, `$app.PROVIDER:NAME`, numbers, texts in which `*` stands for any text. In
// addition, `$name`, `$time` (ns since the clock's origin) and `$loglevel` are those of the event.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "viewer/filter/value_path.hpp"

namespace leat::viewer {

enum class FilterOp : std::uint8_t {
    kInteger,
    kReal,
    kText,
    kField,
    kMinus,
    kNot,
    kComplement,
    kShiftLeft,
    kShiftRight,
    kBitAnd,
    kBitXor,
    kBitOr,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kEqual,
    kNotEqual,
    kAnd,
    kOr,
};

struct FilterNode {
    FilterOp op = FilterOp::kInteger;
    std::uint32_t left = 0;  // operands: into FilterExpression::nodes; of a unary operator the left one alone
    std::uint32_t right = 0;
    std::int64_t integer = 0;
    double real = 0;
    std::string text{};       // a pattern, for == and !=
    std::string plain{};      // the same text, for all others
    std::uint32_t field = 0;  // into FilterExpression::fields
};

// What a filter names.
struct FilterField {
    enum class Place : std::uint8_t { kPayload, kContext, kName, kTime, kLogLevel };

    Place place = Place::kPayload;
    ValuePath path{};
    std::string text{};  // as it is written
};

struct FilterExpression {
    std::string what = "filter";      // as messages call it
    std::vector<FilterNode> nodes{};  // the last one is the whole
    std::vector<FilterField> fields{};
};

// An error says where in the text it is. `what`: as messages call it.
Result<FilterExpression> parse_filter(std::string_view text, std::string_view what = "filter");

}  // namespace leat::viewer
