#include "viewer/sink/field_json.hpp"

#include <emmintrin.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/utf8.hpp"
#include "viewer/sink/found_labels.hpp"

namespace leat::viewer {
namespace {

using ctf::FieldValue;

// Of a character that may not stand for itself; 0: it may.
char letter_of(char character) {
    switch (character) {
        case '"':
        case '\\':
            return character;
        case '\b':
            return 'b';
        case '\f':
            return 'f';
        case '\n':
            return 'n';
        case '\r':
            return 'r';
        case '\t':
            return 't';
        default:
            return static_cast<unsigned char>(character) < 0x20 ? 'u' : '\0';
    }
}

// How many of the first characters are ASCII that stands for itself.
std::size_t count_plain(std::string_view text) {
    constexpr std::size_t kBlock = sizeof(__m128i);
    std::size_t count = 0;
    for (; text.size() - count >= kBlock; count += kBlock) {
        const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + count));
        const __m128i is_special =
            _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')), _mm_cmpeq_epi8(block, _mm_set1_epi8('\\')));
        // Signed, so that what is not ASCII is less, too.
        const __m128i is_low = _mm_cmplt_epi8(block, _mm_set1_epi8(0x20));
        if (_mm_movemask_epi8(_mm_or_si128(is_special, is_low)) != 0) break;
    }
    const auto is_plain = [](char c) { return static_cast<unsigned char>(c) < 0x80 && letter_of(c) == '\0'; };
    while (count < text.size() && is_plain(text[count])) ++count;
    return count;
}

// Takes one character that does not stand for itself, or is not ASCII.
std::size_t append_special(TextBuffer& buffer, std::string_view text) {
    if (const char letter = letter_of(text.front()); letter != '\0') {
        buffer.append('\\');
        buffer.append(letter);
        if (letter == 'u') buffer.append(fmt::format("{:04x}", static_cast<unsigned char>(text.front())));
        return 1;
    }
    const std::size_t size = utf8_size(text);
    buffer.append(size == 0 ? kReplacementCharacter : text.substr(0, size));
    return std::max<std::size_t>(size, 1);
}

// Walks the values of a scope from front to back.
class FieldJson {
  public:
    FieldJson(TextBuffer& buffer, std::span<const FieldValue> values, JsonIntegers integers)
        : buffer_(buffer), value_(values.data()), integers_(integers) {}

    void field() {
        const FieldValue& value = *value_++;
        if (value.is_text) return append_json_text(buffer_, {value.text, value.size});
        const ctf::FieldClass* const field_class = value.field_class;
        if (field_class == nullptr) return members(value);  // the scope itself
        if (const auto* integer = field_class->as<ctf::IntegerClass>())
            integer->kind == ctf::IntegerKind::kBoolean ? buffer_.append(value.number != 0 ? "true" : "false")
                                                        : number(value.number, integer->is_signed);
        else if (const auto* enumeration = field_class->as<ctf::EnumClass>())
            labelled(value.number, *enumeration);
        else if (const auto* real = field_class->as<ctf::FloatClass>())
            floating(value.real, real->size);
        else if (field_class->as<ctf::VariantClass>() != nullptr)
            value.size == 0 ? buffer_.append("null") : field();
        else if (field_class->as<ctf::StructClass>() != nullptr)
            members(value);
        else
            elements(value);
    }

  private:
    void number(std::uint64_t bits, bool is_signed) {
        const bool is_text = integers_ == JsonIntegers::kForDoubles && !fits_double(bits, is_signed);
        if (is_text) buffer_.append('"');
        if (is_signed)
            buffer_.append_number(static_cast<std::int64_t>(bits));
        else
            buffer_.append_number(bits);
        if (is_text) buffer_.append('"');
    }

    // Number.MAX_SAFE_INTEGER of JavaScript.
    static bool fits_double(std::uint64_t bits, bool is_signed) {
        constexpr std::uint64_t kLargest = (std::uint64_t{1} << 53U) - 1;
        return (is_signed && static_cast<std::int64_t>(bits) < 0 ? 0 - bits : bits) <= kLargest;
    }

    // With the fewest digits that give the same number. It has a point or an exponent, so that it is seen to be no
    // integer.
    void floating(double number, unsigned size) {
        if (std::isnan(number)) return buffer_.append("\"NaN\"");
        if (std::isinf(number)) return buffer_.append(number < 0 ? "\"-Infinity\"" : "\"Infinity\"");
        const std::string text = size == 32 ? fmt::format("{}", static_cast<float>(number)) : fmt::format("{}", number);
        buffer_.append(text);
        if (text.find_first_of(".e") == std::string::npos) buffer_.append(".0");
    }

    void labelled(std::uint64_t bits, const ctf::EnumClass& enumeration) {
        buffer_.append("{\"value\":");
        number(bits, enumeration.container.is_signed);
        buffer_.append(",\"labels\":[");
        const FoundLabels found(bits, enumeration);
        for (const std::uint32_t& label : found.labels()) {
            if (&label != found.labels().data()) buffer_.append(',');
            append_json_text(buffer_, enumeration.ranges[label].label);
        }
        buffer_.append(found.has_more() ? "],\"has_more_labels\":true}" : "]}");
    }

    void members(const FieldValue& value) {
        buffer_.append('{');
        for (std::uint32_t i = 0; i < value.size; ++i) {
            if (i > 0) buffer_.append(',');
            append_json_text(buffer_, value_->name);
            buffer_.append(':');
            field();
        }
        buffer_.append('}');
    }

    void elements(const FieldValue& value) {
        buffer_.append('[');
        for (std::uint32_t i = 0; i < value.size; ++i) {
            if (i > 0) buffer_.append(',');
            field();
        }
        buffer_.append(']');
    }

    TextBuffer& buffer_;
    const FieldValue* value_;
    JsonIntegers integers_;
};

}  // namespace

void append_json(TextBuffer& buffer, std::span<const FieldValue> values, JsonIntegers integers) {
    FieldJson(buffer, values, integers).field();
}

void append_json_text(TextBuffer& buffer, std::string_view text) {
    buffer.append('"');
    while (!text.empty()) {
        const std::size_t plain = count_plain(text);
        buffer.append(text.substr(0, plain));
        text.remove_prefix(plain);
        if (!text.empty()) text.remove_prefix(append_special(buffer, text));
    }
    buffer.append('"');
}

}  // namespace leat::viewer
