#include "viewer/filter/filter_expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

namespace leat::viewer {
namespace {

constexpr unsigned kMaxDepth = 200;
constexpr std::size_t kMaxNodes = 2000;

struct Operator {
    std::string_view text;
    FilterOp op;
};
// From the weakest to the strongest. Of those that begin alike, the longer one comes first.
constexpr std::array kOr{Operator{"||", FilterOp::kOr}};
constexpr std::array kAnd{Operator{"&&", FilterOp::kAnd}};
constexpr std::array kEquality{Operator{"==", FilterOp::kEqual}, Operator{"!=", FilterOp::kNotEqual}};
constexpr std::array kOrder{Operator{"<=", FilterOp::kLessEqual}, Operator{">=", FilterOp::kGreaterEqual},
                            Operator{"<", FilterOp::kLess}, Operator{">", FilterOp::kGreater}};
constexpr std::array kBitOr{Operator{"|", FilterOp::kBitOr}};
constexpr std::array kBitXor{Operator{"^", FilterOp::kBitXor}};
constexpr std::array kBitAnd{Operator{"&", FilterOp::kBitAnd}};
constexpr std::array kShift{Operator{"<<", FilterOp::kShiftLeft}, Operator{">>", FilterOp::kShiftRight}};
constexpr std::array<std::span<const Operator>, 8> kLevels{kOr,    kAnd,    kEquality, kOrder,
                                                           kBitOr, kBitXor, kBitAnd,   kShift};
// "<" is not the begin of "<<", and so on.
constexpr std::array<std::string_view, 6> kLonger{"||", "&&", "<<", ">>", "<=", ">="};

bool is_digit(char c) { return '0' <= c && c <= '9'; }
char to_lower(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter(char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '_'; }

class FilterParser {
  public:
    FilterParser(std::string_view text, std::string_view what) : text_(text) { expression_.what = what; }

    Result<FilterExpression> parse() {
        LEAT_TRY(binary(0));
        skip_space();
        if (at_ != text_.size()) return wrong("an operator or the end");
        return std::move(expression_);
    }

  private:
    // Each function parses an expression, and returns its node.
    Result<std::uint32_t> binary(std::size_t level) {
        if (level == kLevels.size()) return unary();
        std::uint32_t left = LEAT_TRY(binary(level + 1));
        while (const auto op = take_operator(kLevels[level])) {
            const std::uint32_t right = LEAT_TRY(binary(level + 1));
            left = add({.op = *op, .left = left, .right = right});
        }
        return left;
    }

    Result<std::uint32_t> unary() {
        if (depth_ == kMaxDepth) return refused("the filter nests too deeply");
        if (expression_.nodes.size() >= kMaxNodes) return refused("the filter is too long");
        ++depth_;
        auto parsed = unary_at_depth();
        --depth_;
        return parsed;
    }

    Result<std::uint32_t> unary_at_depth() {
        skip_space();
        if (take("+")) return unary();
        if (take("-")) return add({.op = FilterOp::kMinus, .left = LEAT_TRY(unary())});
        if (take("!")) return add({.op = FilterOp::kNot, .left = LEAT_TRY(unary())});
        if (take("~")) return add({.op = FilterOp::kComplement, .left = LEAT_TRY(unary())});
        if (take("(")) {
            const std::uint32_t inner = LEAT_TRY(binary(0));
            skip_space();
            if (!take(")")) return wrong("\")\"");
            return inner;
        }
        return operand();
    }

    Result<std::uint32_t> operand() {
        const char next = peek();
        if (is_digit(next) || next == '.') return number();
        if (next == '"') return text_literal();
        if (next == '\'') return character();
        if (next == '$') return special();
        if (is_letter(next)) return field(FilterField::Place::kPayload, at_);
        return wrong("a field, a number or a text");
    }

    Result<std::uint32_t> number() {
        const std::string_view rest = text_.substr(at_);
        const bool is_hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
        const std::size_t size = is_hexadecimal ? 2 + rest.substr(2).find_first_not_of("0123456789abcdefABCDEF")
                                                : rest.find_first_not_of("0123456789");
        const std::string_view digits = rest.substr(0, is_hexadecimal && size == 1 ? rest.size() : size);
        const std::string_view behind = rest.substr(digits.size());
        if (!is_hexadecimal && !behind.empty() && (behind[0] == '.' || behind[0] == 'e' || behind[0] == 'E'))
            return real();
        const bool is_octal = !is_hexadecimal && digits.size() > 1 && digits[0] == '0';
        const std::string_view bare = digits.substr(is_hexadecimal ? 2 : 0);
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(bare.data(), bare.data() + bare.size(), value,
                                                  is_hexadecimal ? 16
                                                  : is_octal     ? 8
                                                                 : 10);
        if (error != std::errc{} || end != bare.data() + bare.size()) return wrong("a number of 64 bits");
        const std::size_t suffix = LEAT_TRY(integer_suffix(behind));
        at_ += digits.size() + suffix;
        return add({.op = FilterOp::kInteger, .integer = static_cast<std::int64_t>(value)});
    }

    // Returns the size of one of C's suffixes. It changes nothing: all integers have 64 bits.
    [[nodiscard]] Result<std::size_t> integer_suffix(std::string_view behind) const {
        constexpr std::array<std::string_view, 8> kSuffixes{"", "u", "l", "ul", "lu", "ll", "ull", "llu"};
        std::string suffix;
        for (const char c : behind) {
            if (!is_letter(c) && !is_digit(c)) break;
            suffix += to_lower(c);
        }
        if (std::ranges::find(kSuffixes, suffix) == kSuffixes.end()) return wrong("a number");
        return suffix.size();
    }

    Result<std::uint32_t> real() {
        double value = 0;
        const char* const begin = text_.data() + at_;
        const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
        if (error != std::errc{}) return wrong("a number");
        at_ += static_cast<std::size_t>(end - begin);
        return add({.op = FilterOp::kReal, .real = value});
    }

    Result<std::uint32_t> text_literal() {
        FilterNode node{.op = FilterOp::kText};
        const std::size_t begin = at_++;
        while (!take("\"")) {
            if (at_ == text_.size()) {
                at_ = begin;
                return wrong("a text that ends with a quotation mark");
            }
            const bool is_escaped = take("\\");
            if (is_escaped && at_ < text_.size() && std::string_view("\\\"*").find(peek()) == std::string_view::npos)
                return wrong(R"(one of \\, \", \*)");
            if (is_escaped && at_ == text_.size()) continue;
            if (is_escaped) node.text += '\\';
            node.text += peek();
            node.plain += peek();
            ++at_;
        }
        return add(std::move(node));
    }

    Result<std::uint32_t> character() {
        const std::string_view rest = text_.substr(at_);
        if (rest.size() < 3 || rest[1] == '\\' || rest[2] != '\'') return wrong("one character in quotes, as 'a'");
        at_ += 3;
        return add({.op = FilterOp::kInteger, .integer = static_cast<unsigned char>(rest[1])});
    }

    Result<std::uint32_t> special() {
        const std::size_t begin = at_++;
        if (take("ctx.")) return field(FilterField::Place::kContext, begin);
        if (take("app.")) return application_context(begin);
        const std::string name = word();
        if (name == "name") return add_field({.place = FilterField::Place::kName, .text = "$name"});
        if (name == "time") return add_field({.place = FilterField::Place::kTime, .text = "$time"});
        if (name == "loglevel") return add_field({.place = FilterField::Place::kLogLevel, .text = "$loglevel"});
        at_ = begin;
        return wrong("$ctx.NAME, $app.PROVIDER:NAME, $name, $time or $loglevel");
    }

    // "$app.shop:request" is the context app_shop_request.
    Result<std::uint32_t> application_context(std::size_t begin) {
        const std::string provider = word();
        if (provider.empty() || !take(":")) return wrong("PROVIDER:NAME");
        const std::string name = word();
        if (name.empty()) return wrong("PROVIDER:NAME");
        return add_field({.place = FilterField::Place::kContext,
                          .path = {fmt::format("app_{}_{}", provider, name)},
                          .text = std::string(text_.substr(begin, at_ - begin))});
    }

    Result<std::uint32_t> field(FilterField::Place place, std::size_t begin) {
        FilterField field{.place = place};
        do {
            if (!is_letter(peek())) return wrong("the name of a field");
            field.path.emplace_back(word());
            while (take("[")) {
                const std::size_t size = std::min(text_.find_first_not_of("0123456789", at_), text_.size()) - at_;
                std::uint64_t index = 0;
                if (std::from_chars(text_.data() + at_, text_.data() + at_ + size, index).ec != std::errc{})
                    return wrong("the number of an element");
                at_ += size;
                if (!take("]")) return wrong("\"]\"");
                field.path.emplace_back(index);
            }
        } while (take("."));
        field.text = text_.substr(begin, at_ - begin);
        return add_field(std::move(field));
    }

    std::string word() {
        const std::size_t begin = at_;
        while (is_letter(peek()) || is_digit(peek())) ++at_;
        return std::string(text_.substr(begin, at_ - begin));
    }

    std::optional<FilterOp> take_operator(std::span<const Operator> operators) {
        skip_space();
        const std::string_view rest = text_.substr(at_);
        for (const Operator& known : operators) {
            const auto is_longer = [&](std::string_view other) {
                return other.size() > known.text.size() && rest.starts_with(other);
            };
            if (!rest.starts_with(known.text) || std::ranges::any_of(kLonger, is_longer)) continue;
            at_ += known.text.size();
            return known.op;
        }
        return std::nullopt;
    }

    std::uint32_t add(FilterNode node) {
        expression_.nodes.push_back(std::move(node));
        return static_cast<std::uint32_t>(expression_.nodes.size() - 1);
    }
    std::uint32_t add_field(FilterField field) {
        expression_.fields.push_back(std::move(field));
        return add({.op = FilterOp::kField, .field = static_cast<std::uint32_t>(expression_.fields.size() - 1)});
    }

    [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool take(std::string_view expected) {
        if (!text_.substr(at_).starts_with(expected)) return false;
        at_ += expected.size();
        return true;
    }
    void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\n", at_), text_.size()); }

    [[nodiscard]] tl::unexpected<Error> wrong(std::string_view expected) const {
        constexpr std::size_t kShown = 20;
        const std::string_view rest = text_.substr(at_);
        const std::string found =
            rest.empty() ? "the end"
                         : fmt::format("\"{}{}\"", rest.substr(0, kShown), rest.size() > kShown ? "..." : "");
        return refused("{}, character {}: {} is expected, not {}", expression_.what, at_ + 1, expected, found);
    }

    std::string_view text_;
    std::size_t at_ = 0;
    unsigned depth_ = 0;
    FilterExpression expression_;
};

}  // namespace

Result<FilterExpression> parse_filter(std::string_view text, std::string_view what) {
    return FilterParser(text, what).parse();
}

}  // namespace leat::viewer
