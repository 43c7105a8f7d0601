// What a field of an event record looks like in bytes, and how it wants to be shown ([CTF-1.8], section 4; [CTF-2],
// "Field classes").
//
// Field classes are values: they are copied, compared with ==, and belong to nobody. Sizes and alignments are in bits;
// alignments count from the start of the packet.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/box.hpp"
#include "ctf/model/enum_labels.hpp"
#include "ctf/model/field_role.hpp"

namespace leat::ctf {

enum class ByteOrder : std::uint8_t { kLittleEndian, kBigEndian };
enum class DisplayBase : std::uint8_t { kBinary = 2, kOctal = 8, kDecimal = 10, kHexadecimal = 16 };
enum class Encoding : std::uint8_t { kNone, kUtf8, kAscii, kUtf16Le, kUtf16Be, kUtf32Le, kUtf32Be };
// How an integer is meant. A byte is that of a BLOB.
enum class IntegerKind : std::uint8_t { kNumber, kBits, kBoolean, kByte };

// No machine needs more, and with this limit sums with offsets cannot overflow.
inline constexpr std::uint64_t kMaxAlignment = 1U << 20U;  // bits

class FieldClass;
struct StructMember;

// An integer of 1 to 64 bits, or one of variable length (LEB128), whose value has so many.
struct IntegerClass {
    unsigned size = 8;
    unsigned alignment = 8;
    bool is_signed = false;
    DisplayBase base = DisplayBase::kDecimal;
    ByteOrder byte_order = ByteOrder::kLittleEndian;
    Encoding encoding = Encoding::kNone;  // other than kNone: a character, and arrays of it are text
    IntegerKind kind = IntegerKind::kNumber;
    bool is_variable = false;           // of variable length
    bool is_reversed = false;           // its first bit is where another of its byte order has the last
    FieldRole role = FieldRole::kNone;  // of CTF 2
    std::string clock{};                // name of the clock that this field is a timestamp of; empty: none

    bool operator==(const IntegerClass&) const = default;
};

// A number of 32 or 64 bits as IEEE 754 defines it.
struct FloatClass {
    unsigned size = 64;
    unsigned alignment = 8;
    ByteOrder byte_order = ByteOrder::kLittleEndian;

    bool operator==(const FloatClass&) const = default;
};

// Whether a <= b, of values whose 64 bits are signed or not.
inline bool is_at_most(std::uint64_t a, std::uint64_t b, bool is_signed) {
    return is_signed ? static_cast<std::int64_t>(a) <= static_cast<std::int64_t>(b) : a <= b;
}

// Both bounds are part of the range. They hold the bits of the container's value: an int64 if the container is signed.
struct EnumRange {
    std::string label;
    std::uint64_t lower = 0;
    std::uint64_t upper = 0;

    bool operator==(const EnumRange&) const = default;
};

// Ranges may overlap, and a label may have several. They are in the order of their declaration. A value that TSDL
// leaves out ("the previous one plus one") is filled in.
//
// Of a bit map, each label has one range, whose bounds are both the mask of its bits: a value has the labels of all its
// bits that are 1.
struct EnumClass {
    IntegerClass container;
    std::vector<EnumRange> ranges{};
    // The index of the labels. Null if there are few ranges, or if it was not made.
    std::shared_ptr<const EnumLabels> labels{};
    bool is_bit_map = false;

    bool operator==(const EnumClass& other) const {
        return container == other.container && ranges == other.ranges && is_bit_map == other.is_bit_map;
    }
};

// A string is characters up to a NUL.
struct StringClass {
    Encoding encoding = Encoding::kUtf8;

    bool operator==(const StringClass&) const = default;
};

// The path to the field that holds a length or a tag, in parts as TSDL writes it: "len", or "event", "fields", "len". A
// single name is searched for in the scopes around the field that uses it, nearest first. Paths of CTF 2 search
// nowhere: they begin with "/" and the words for a scope, or with "." for the struct around that field, which ".." may
// follow, once for each struct further out.
using FieldPath = std::vector<std::string>;

// An array is text if its element is an 8-bit integer with an encoding. Characters may have several bytes; the length
// is that of the bytes.
struct ArrayClass {
    Box<FieldClass> element;
    std::uint64_t length = 0;
    unsigned minimum_alignment = 1;  // the element may require more

    bool operator==(const ArrayClass& other) const;
};

struct SequenceClass {
    Box<FieldClass> element;
    FieldPath length;
    unsigned minimum_alignment = 1;

    bool operator==(const SequenceClass& other) const;
};

struct StructClass {
    std::vector<StructMember> members;
    unsigned minimum_alignment = 1;  // from `align(N)`; the members may require more

    bool operator==(const StructClass& other) const;
};

// Values of a tag that choose an option of a variant, this one by its number. Both bounds are part of the range.
struct VariantChoice {
    std::uint64_t lower = 0;
    std::uint64_t upper = 0;
    std::uint32_t option = 0;
    bool is_negative = false;  // the lower bound is less than 0, so the tag must be signed

    bool operator==(const VariantChoice&) const = default;
};

// Holds one of its options. The label of the tag, an enum, chooses which; in CTF 2 the value of the tag does.
struct VariantClass {
    FieldPath tag;
    std::vector<StructMember> options;
    std::vector<VariantChoice> choices{};  // of CTF 2
    // It has one option, and holds nothing if the tag does not choose that. Without choices, the tag is a boolean.
    bool is_optional = false;

    bool operator==(const VariantClass& other) const;
};

template <class T, class... Options>
concept OneOf = (std::same_as<T, Options> || ...);

template <class T>
concept FieldForm =
    OneOf<T, IntegerClass, FloatClass, EnumClass, StringClass, ArrayClass, SequenceClass, StructClass, VariantClass>;

class FieldClass {
  public:
    using Form = std::variant<IntegerClass, FloatClass, EnumClass, StringClass, ArrayClass, SequenceClass, StructClass,
                              VariantClass>;

    template <FieldForm T>
    FieldClass(T form) : form_(std::move(form)) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] const Form& form() const { return form_; }

    // Null if the field class has another form.
    template <FieldForm T>
    [[nodiscard]] const T* as() const {
        return std::get_if<T>(&form_);
    }
    template <FieldForm T>
    [[nodiscard]] T* as() {
        return std::get_if<T>(&form_);
    }

    bool operator==(const FieldClass&) const = default;

  private:
    Form form_;
};

// A field of a struct, or an option of a variant, with its name in TSDL. A user's field has an underscore before its
// name there, so that it cannot be a keyword. display_name() takes the underscore off.
struct StructMember {
    std::string name;
    FieldClass field_class;

    bool operator==(const StructMember&) const = default;
};

[[nodiscard]] std::string_view display_name(const StructMember& member);

// Returns null if there is no such member.
[[nodiscard]] const FieldClass* find_member(const StructClass& struct_class, std::string_view name);

// The alignment of such a field's bytes, including that of its members.
[[nodiscard]] unsigned alignment_of(const FieldClass& field_class);
[[nodiscard]] unsigned alignment_of(const StructClass& struct_class);

// A character is a whole byte with an encoding, also that of an enum. Arrays and sequences of characters are text.
[[nodiscard]] bool is_character(const FieldClass& field_class);

// The integer, or that of an enum; null: it is neither.
[[nodiscard]] const IntegerClass* integer_of(const FieldClass& field_class);

// How many bytes a character of a NUL-terminated text has at least: 1, 2 or 4.
[[nodiscard]] unsigned unit_size(Encoding encoding);

}  // namespace leat::ctf
