#include "session/event_difference.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable_text.hpp"
#include "ctf/model/log_level.hpp"

namespace leat::session {
namespace {

struct NameOf {
    std::string operator()(const ctf::IntegerClass& integer) const {
        std::string name = fmt::format("{}{}", integer.is_signed ? "int" : "uint", integer.size);
        if (integer.base == ctf::DisplayBase::kHexadecimal) name += " in hexadecimal";
        if (integer.encoding != ctf::Encoding::kNone) name += " as text";
        if (integer.byte_order == ctf::ByteOrder::kBigEndian) name += ", big-endian";
        return name;
    }
    std::string operator()(const ctf::FloatClass& number) const { return fmt::format("float{}", number.size); }
    std::string operator()(const ctf::EnumClass& enumeration) const {
        return fmt::format("an enumeration of {} ({} labels)", (*this)(enumeration.container),
                           enumeration.ranges.size());
    }
    std::string operator()(const ctf::StringClass&) const { return "a string"; }
    std::string operator()(const ctf::ArrayClass& array) const {
        return fmt::format("an array of {} {}", array.length, of(*array.element));
    }
    std::string operator()(const ctf::SequenceClass& sequence) const {
        return fmt::format("a sequence of {}", of(*sequence.element));
    }
    std::string operator()(const ctf::StructClass&) const { return "a structure"; }
    std::string operator()(const ctf::VariantClass&) const { return "a variant"; }

    [[nodiscard]] std::string of(const ctf::FieldClass& field) const { return std::visit(*this, field.form()); }
};

std::string level_name(const ctf::EventClass& event_class) {
    if (!event_class.log_level) return "none";
    const auto level = static_cast<std::size_t>(*event_class.log_level);
    return level < ctf::kLogLevels.size() ? std::string(ctf::kLogLevels[level]) : std::to_string(level);
}

// As the program called it.
std::string shown(const std::string& name) { return printable(name.starts_with('_') ? name.substr(1) : name); }

std::string field_difference(const ctf::StructMember& known, const ctf::StructMember& other) {
    if (known.name != other.name)
        return fmt::format("there is a field \"{}\" where here is \"{}\"", shown(known.name), shown(other.name));
    const std::string there = NameOf{}.of(known.field_class);
    const std::string here = NameOf{}.of(other.field_class);
    if (there == here) return fmt::format("field \"{}\" is {} both times, with other values", shown(known.name), here);
    return fmt::format("field \"{}\" is {} there, {} here", shown(known.name), there, here);
}

}  // namespace

std::string difference_between(const ctf::EventClass& known, const ctf::EventClass& other) {
    if (known.log_level != other.log_level)
        return fmt::format("log level {} there, {} here", level_name(known), level_name(other));
    if (known.model_uri != other.model_uri) return "another URI";
    if (!known.fields || !other.fields) return "no fields";
    const auto& there = known.fields->members;
    const auto& here = other.fields->members;
    const auto [first, second] = std::ranges::mismatch(there, here);
    if (first != there.end() && second != here.end()) return field_difference(*first, *second);
    if (first != there.end()) return fmt::format("field \"{}\" is only there", shown(first->name));
    if (second != here.end()) return fmt::format("field \"{}\" is only here", shown(second->name));
    return "nothing that can be seen";
}

}  // namespace leat::session
