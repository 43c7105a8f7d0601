#include "viewer/sink/field_text.hpp"

#include <emmintrin.h>
#include <fmt/compile.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <span>
#include <string>

#include "viewer/sink/found_labels.hpp"

namespace leat::viewer {
namespace {

using ctf::FieldValue;

// Characters that are written as a backslash and a letter, with that letter; NUL for all others.
constexpr std::array<char, 256> make_escapes() {
    std::array<char, 256> letters{};
    letters['\a'] = 'a';
    letters['\b'] = 'b';
    letters['\x1b'] = 'e';
    letters['\f'] = 'f';
    letters['\n'] = 'n';
    letters['\r'] = 'r';
    letters['\t'] = 't';
    letters['\v'] = 'v';
    for (const char self : {'\\', '\'', '"', '?'}) letters[static_cast<unsigned char>(self)] = self;
    return letters;
}
constexpr std::array<char, 256> kEscapes = make_escapes();

// Whether each of 16 characters stands for itself.
bool are_plain(__m128i characters) {
    const auto is = [characters](char character) { return _mm_cmpeq_epi8(characters, _mm_set1_epi8(character)); };
    const __m128i is_control = _mm_cmpeq_epi8(_mm_min_epu8(characters, _mm_set1_epi8(0x1F)), characters);
    const __m128i is_quote = _mm_or_si128(is('"'), is('\''));
    const __m128i is_mark = _mm_or_si128(is('\\'), is('?'));
    const __m128i is_other = _mm_or_si128(_mm_or_si128(is_quote, is_mark), is(0x7F));
    return _mm_movemask_epi8(_mm_or_si128(is_control, is_other)) == 0;
}

char* write_escaped(char* at, char character) {
    const auto code = static_cast<unsigned char>(character);
    if (code >= 0x20 && code != 0x7F && kEscapes[code] == '\0') {
        *at++ = character;
        return at;
    }
    *at++ = '\\';
    if (kEscapes[code] != '\0') {
        *at++ = kEscapes[code];
        return at;
    }
    *at++ = 'x';
    *at++ = "0123456789abcdef"[code >> 4U];
    *at++ = "0123456789abcdef"[code & 0xFU];
    return at;
}

// Of each character, at most four.
char* write_escaped(char* at, std::string_view text) {
    constexpr std::size_t kBlock = sizeof(__m128i);
    bool is_copied = false;  // the block before
    while (text.size() >= kBlock) {
        const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data()));
        is_copied = are_plain(block);
        if (is_copied) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(at), block);
            at += kBlock;
        } else {
            for (const char character : text.substr(0, kBlock)) at = write_escaped(at, character);
        }
        text.remove_prefix(kBlock);
    }
    if (text.empty()) return at;
    if (is_copied) {
        // The last block of the text, whose first characters are copied once more.
        const std::size_t again = kBlock - text.size();
        const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() - again));
        if (are_plain(block)) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(at - again), block);
            return at + text.size();
        }
    }
    // The rest, made as long as a block.
    std::array<char, kBlock> rest;
    rest.fill('x');
    std::memcpy(rest.data(), text.data(), text.size());
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rest.data()));
    if (!are_plain(block)) {
        for (const char character : text) at = write_escaped(at, character);
        return at;
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), block);
    return at + text.size();
}

// A signed number is shown as its two's complement, in as many whole digits as its field has bits.
std::uint64_t bits_shown(std::uint64_t number, const ctf::IntegerClass& integer, unsigned bits_per_digit) {
    const unsigned bits = (integer.size + bits_per_digit - 1) / bits_per_digit * bits_per_digit;
    return integer.is_signed && bits < 64 ? number & ((std::uint64_t{1} << bits) - 1) : number;
}

void append_binary(TextBuffer& buffer, std::uint64_t number, unsigned size) {
    buffer.append("0b");
    for (unsigned bit = size; bit-- > 0;) buffer.append((number >> bit & 1U) != 0 ? '1' : '0');
}

// Writes a number with a prefix, in a base that is a power of two; at least one digit.
void append_power_base(TextBuffer& buffer, std::string_view prefix, std::uint64_t number, unsigned bits_per_digit) {
    std::array<char, 64> digits;
    std::size_t begin = digits.size();
    do {
        digits[--begin] = "0123456789ABCDEF"[number & ((1U << bits_per_digit) - 1)];
        number >>= bits_per_digit;
    } while (number != 0);
    buffer.append(prefix);
    buffer.append(std::string_view(digits.data() + begin, digits.size() - begin));
}

void append_integer(TextBuffer& buffer, std::uint64_t number, const ctf::IntegerClass& integer) {
    if (integer.kind == ctf::IntegerKind::kBoolean) return buffer.append(number != 0 ? "true" : "false");
    switch (integer.base) {
        case ctf::DisplayBase::kBinary:
            append_binary(buffer, number, integer.size);
            return;
        case ctf::DisplayBase::kOctal:
            append_power_base(buffer, "0", bits_shown(number, integer, 3), 3);
            return;
        case ctf::DisplayBase::kHexadecimal:
            append_power_base(buffer, "0x", bits_shown(number, integer, 4), 4);
            return;
        case ctf::DisplayBase::kDecimal:
            break;
    }
    if (integer.is_signed)
        buffer.append_number(static_cast<std::int64_t>(number));
    else
        buffer.append_number(number);
}

void append_real(TextBuffer& buffer, double number) {
    fmt::memory_buffer text;
    fmt::format_to(std::back_inserter(text), FMT_COMPILE("{:g}"), number);
    buffer.append(std::string_view(text.data(), text.size()));
}

bool is_blob(const ctf::FieldClass& field_class) {
    const auto* const array = field_class.as<ctf::ArrayClass>();
    const auto* const sequence = field_class.as<ctf::SequenceClass>();
    const ctf::FieldClass& element = array != nullptr ? *array->element : *sequence->element;
    const auto* const integer = element.as<ctf::IntegerClass>();
    return integer != nullptr && integer->kind == ctf::IntegerKind::kByte;
}

bool is_optional(const ctf::FieldClass& field_class) {
    const auto* const variant = field_class.as<ctf::VariantClass>();
    return variant != nullptr && variant->is_optional;
}

// Walks the flat values of a scope.
class FieldText {
  public:
    FieldText(TextBuffer& buffer, std::span<const FieldValue> values, bool has_names, const TextColors& colors)
        : buffer_(buffer), value_(values.data()), has_names_(has_names), colors_(colors) {}

    void field() {
        const FieldValue& value = *value_++;
        if (value.is_text) return colored([&] { append_quoted(buffer_, {value.text, value.size}); });
        const ctf::FieldClass* const field_class = value.field_class;
        if (field_class == nullptr) return members(value);  // the scope itself
        if (const auto* integer = field_class->as<ctf::IntegerClass>())
            number(value.number, *integer);
        else if (const auto* enumeration = field_class->as<ctf::EnumClass>())
            enumeration->is_bit_map ? bit_map(value.number, *enumeration) : labelled(value.number, *enumeration);
        else if (field_class->as<ctf::FloatClass>() != nullptr)
            colored([&] { append_real(buffer_, value.real); });
        else if (field_class->as<ctf::ArrayClass>() != nullptr || field_class->as<ctf::SequenceClass>() != nullptr)
            is_blob(*field_class) ? bytes(value) : elements(value);
        else if (value.size == 0 && is_optional(*field_class))
            colored([&] { buffer_.append("<none>"); });
        else
            members(value);
    }

  private:
    void colored(const auto& append_value) {
        buffer_.append(colors_.value);
        append_value();
        buffer_.append(colors_.end);
    }

    void number(std::uint64_t bits, const ctf::IntegerClass& integer) {
        colored([&] { append_integer(buffer_, bits, integer); });
    }

    // All labels of the number in the order of their first declaration, as babeltrace2 writes them.
    void labels(const FoundLabels& found, const ctf::EnumClass& enumeration) {
        for (const std::uint32_t& label : found.labels()) {
            if (&label != found.labels().data()) buffer_.append(", ");
            colored([&] { append_quoted(buffer_, enumeration.ranges[label].label); });
        }
        if (found.has_more()) buffer_.append(", ...");
    }

    // With the labels of the bits that are 1, if there are any.
    void bit_map(std::uint64_t bits, const ctf::EnumClass& map) {
        number(bits, map.container);
        const FoundLabels found(bits, map);
        if (found.labels().empty()) return;
        buffer_.append(" { ");
        labels(found, map);
        buffer_.append(" }");
    }

    void labelled(std::uint64_t value, const ctf::EnumClass& enumeration) {
        const FoundLabels found(value, enumeration);
        buffer_.append("( ");
        labels(found, enumeration);
        if (found.labels().empty()) {
            buffer_.append(colors_.unknown);
            buffer_.append("<unknown>");
            buffer_.append(colors_.end);
        }
        buffer_.append(" : container = ");
        number(value, enumeration.container);
        buffer_.append(" )");
    }

    void members(const FieldValue& value) {
        buffer_.append("{ ");
        for (std::uint32_t i = 0; i < value.size; ++i) {
            if (i > 0) buffer_.append(", ");
            if (has_names_ && !value_->name.empty()) {
                buffer_.append(colors_.field);
                buffer_.append(value_->name);
                buffer_.append(colors_.end);
                buffer_.append(" = ");
            }
            field();
        }
        buffer_.append(value.size > 0 ? " }" : "}");
    }

    void elements(const FieldValue& value) {
        buffer_.append("[ ");
        for (std::uint32_t i = 0; i < value.size; ++i) {
            if (i > 0) buffer_.append(", ");
            if (has_names_) {
                buffer_.append('[');
                buffer_.append_number(std::uint64_t{i});
                buffer_.append("] = ");
            }
            field();
        }
        buffer_.append(value.size > 0 ? " ]" : "]");
    }

    void bytes(const FieldValue& value) {
        buffer_.append("{ ");
        for (std::uint32_t i = 0; i < value.size; ++i, ++value_) {
            buffer_.append("0123456789abcdef"[value_->number >> 4U & 0xFU]);
            buffer_.append("0123456789abcdef"[value_->number & 0xFU]);
            buffer_.append(' ');
        }
        buffer_.append('}');
    }

    TextBuffer& buffer_;
    const FieldValue* value_;
    bool has_names_;
    const TextColors& colors_;
};

}  // namespace

void append_fields(TextBuffer& buffer, std::span<const FieldValue> values, bool has_names, const TextColors& colors) {
    FieldText(buffer, values, has_names, colors).field();
}

void append_quoted(TextBuffer& buffer, std::string_view text) {
    constexpr std::size_t kPiece = 4096;
    constexpr std::size_t kLongestEscape = 4;
    constexpr std::size_t kSlack = 18;  // quotes, and the rest of a block
    char* at = buffer.reserve(kSlack);
    *at++ = '"';
    do {
        buffer.set_end(at);
        const std::string_view piece = text.substr(0, kPiece);
        at = write_escaped(buffer.reserve(kLongestEscape * piece.size() + kSlack), piece);
        text.remove_prefix(piece.size());
    } while (!text.empty());
    *at++ = '"';
    buffer.set_end(at);
}

}  // namespace leat::viewer
