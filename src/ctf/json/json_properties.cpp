#include "ctf/json/json_properties.hpp"

#include <algorithm>

namespace leat::ctf {
namespace {

constexpr std::size_t kMaxShown = 60;

tl::unexpected<Error> expected(std::string_view name, std::string_view what, const Json& found) {
    return corrupt("{}: expected {}, found {}", name, what, shown(found));
}

}  // namespace

Result<JsonProperties> JsonProperties::open(const Json& value, std::initializer_list<std::string_view> names,
                                            std::span<const std::string_view> more) {
    if (!value.is_object()) return corrupt("expected an object, found {}", shown(value));
    for (const auto& [name, content] : value.items()) {
        if (name == "attributes") {
            if (!content.is_object()) return expected(name, "an object", content);
        } else if (name == "extensions") {
            if (!content.is_object()) return expected(name, "an object", content);
            if (!content.empty()) return unsupported("it needs the extension {}", shown(content));
        } else if (std::ranges::find(names, name) == names.end() && std::ranges::find(more, name) == more.end()) {
            return corrupt("unknown property {}", shown(name));
        }
    }
    return JsonProperties(value);
}

const Json* JsonProperties::find(std::string_view name) const {
    const auto found = value_->find(name);
    return found == value_->end() ? nullptr : &*found;
}

Result<const Json*> JsonProperties::get(std::string_view name) const {
    const Json* const found = find(name);
    if (found == nullptr) return corrupt("the property \"{}\" is missing", name);
    return found;
}

Result<std::string> JsonProperties::text(std::string_view name) const {
    const Json* const found = LEAT_TRY(get(name));
    if (!found->is_string()) return expected(name, "a string", *found);
    return found->get<std::string>();
}

Result<std::string> JsonProperties::text_or(std::string_view name, std::string_view otherwise) const {
    return find(name) == nullptr ? Result<std::string>(otherwise) : text(name);
}

Result<std::uint64_t> JsonProperties::number(std::string_view name, std::uint64_t lowest, std::uint64_t highest,
                                             std::optional<std::uint64_t> otherwise) const {
    if (otherwise && find(name) == nullptr) return *otherwise;
    const Json* const found = LEAT_TRY(get(name));
    const auto number = integer_bits(*found, false);
    if (number && *number >= lowest && *number <= highest) return *number;
    if (highest == UINT64_MAX) return expected(name, fmt::format("an integer of at least {}", lowest), *found);
    return expected(name, fmt::format("an integer from {} to {}", lowest, highest), *found);
}

Result<const Json*> JsonProperties::array(std::string_view name) const {
    static const Json kEmpty = Json::array();
    const Json* const found = find(name);
    if (found != nullptr && !found->is_array()) return expected(name, "an array", *found);
    return found == nullptr ? &kEmpty : found;
}

Result<const Json*> JsonProperties::object(std::string_view name) const {
    static const Json kEmpty = Json::object();
    const Json* const found = find(name);
    if (found != nullptr && !found->is_object()) return expected(name, "an object", *found);
    return found == nullptr ? &kEmpty : found;
}

std::string escaped(std::string_view name) {
    std::string text;
    for (const char character : name) {
        const auto code = static_cast<unsigned char>(character);
        if (code >= 0x20 && code != 0x7F)
            text += character;
        else if (character == '\n' || character == '\t')
            text += character == '\n' ? "\\n" : "\\t";
        else
            text += fmt::format("\\x{:02x}", code);
    }
    return text;
}

std::optional<std::uint64_t> integer_bits(const Json& value, bool is_signed) {
    if (!value.is_number_integer()) return std::nullopt;
    // Numbers of the parser are unsigned, but for negative ones.
    if (value.is_number_unsigned()) {
        const auto number = value.get<std::uint64_t>();
        if (is_signed && number > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
        return number;
    }
    if (!is_signed) return std::nullopt;
    return static_cast<std::uint64_t>(value.get<std::int64_t>());
}

std::string shown(const Json& value) {
    if (value.is_object())
        return value.empty() ? "an empty object" : fmt::format("an object with {}", shown(value.begin().key()));
    if (value.is_array()) return fmt::format("an array of {}", value.size());
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
    return text;
}

}  // namespace leat::ctf
