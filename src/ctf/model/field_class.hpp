// What a field of a CTF 1.8 event record looks like in bytes, and how it wants to be shown.
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

namespace leat::ctf {

enum class ByteOrder : std::uint8_t { kLittleEndian, kBigEndian };
enum class DisplayBase : std::uint8_t { kBinary = 2, kOctal = 8, kDecimal = 10, kHexadecimal = 16 };
enum class Encoding : std::uint8_t { kNone, kUtf8, kAscii };

class FieldClass;
struct StructMember;

// 1 to 64 bits.
struct IntegerClass {
    unsigned size = 8;
    unsigned alignment = 8;
    bool is_signed = false;
    DisplayBase base = DisplayBase::kDecimal;
    ByteOrder byte_order = ByteOrder::kLittleEndian;
    Encoding encoding = Encoding::kNone;  // other than kNone: a character, and arrays of it are text
    std::string clock{};                  // name of the clock that this field is a timestamp of; empty: none

    bool operator==(const IntegerClass&) const = default;
};

// IEEE 754 of 32 or 64 bits.
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

// Both bounds belong to the range. They are the bits of the container's value: of an int64 when it is signed.
struct EnumRange {
    std::string label;
    std::uint64_t lower = 0;
    std::uint64_t upper = 0;

    bool operator==(const EnumRange&) const = default;
};

// Ranges may overlap and a label may return, in the order of their declaration. Values that TSDL leaves out ("the one
// before plus one") are filled in.
struct EnumClass {
    IntegerClass container;
    std::vector<EnumRange> ranges{};
    // Null where there are few ranges, or where nobody has made it.
    std::shared_ptr<const EnumLabels> labels{};

    bool operator==(const EnumClass& other) const { return container == other.container && ranges == other.ranges; }
};

// Bytes up to a NUL.
struct StringClass {
    Encoding encoding = Encoding::kUtf8;

    bool operator==(const StringClass&) const = default;
};

// Where the value of a length or of a tag is found: as TSDL writes it, in parts ("len", or "event", "fields", "len").
// A name alone is searched for in the scopes around the field that asks, the nearest first.
using FieldPath = std::vector<std::string>;

// Text if the element is an 8-bit integer with an encoding.
struct ArrayClass {
    Box<FieldClass> element;
    std::uint64_t length = 0;

    bool operator==(const ArrayClass& other) const;
};

struct SequenceClass {
    Box<FieldClass> element;
    FieldPath length;

    bool operator==(const SequenceClass& other) const;
};

struct StructClass {
    std::vector<StructMember> members;
    unsigned minimum_alignment = 1;  // `align(N)`; the members may ask for more

    bool operator==(const StructClass& other) const;
};

// One of the options, chosen by the label of the tag, an enum.
struct VariantClass {
    FieldPath tag;
    std::vector<StructMember> options;

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

    // Null if the field class is of another form.
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

// A field of a struct, or an option of a variant, with the name that TSDL gives it: of a user's field that is the name
// behind one underscore, so that it cannot be a keyword. display_name() takes it off.
struct StructMember {
    std::string name;
    FieldClass field_class;

    bool operator==(const StructMember&) const = default;
};

[[nodiscard]] std::string_view display_name(const StructMember& member);

// Null if there is no such member.
[[nodiscard]] const FieldClass* find_member(const StructClass& struct_class, std::string_view name);

// The alignment that the bytes of such a field have, those of its members included.
[[nodiscard]] unsigned alignment_of(const FieldClass& field_class);
[[nodiscard]] unsigned alignment_of(const StructClass& struct_class);

// A whole byte with an encoding: arrays and sequences of it are text.
[[nodiscard]] bool is_character(const FieldClass& field_class);

}  // namespace leat::ctf
