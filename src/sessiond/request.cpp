#include "sessiond/request.hpp"

#include <algorithm>

#include "base/printable_text.hpp"

namespace leat::sessiond {

using nlohmann::json;

Members::Members(const json& object, std::string what) : object_(object), what_(std::move(what)) {
    if (!object.is_object()) refuse("{} is no JSON object", what_);
}

const json* Members::take(const char* name) {
    taken_.insert(name);
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Members::text(const char* name) {
    const json* const value = take(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) return value->get<std::string>();
    refuse("\"{}\" of {} is no text", name, what_);
    return std::nullopt;
}

std::string Members::needed_text(const char* name) {
    auto value = text(name);
    if (!value) refuse("{} has no \"{}\"", what_, name);
    return value.value_or("");
}

std::optional<std::int64_t> Members::number(const char* name, std::int64_t least, std::int64_t most) {
    const json* const value = take(name);
    if (value == nullptr) return std::nullopt;
    const bool is_integer =
        value->is_number_unsigned() ? value->get<std::uint64_t>() <= INT64_MAX : value->is_number_integer();
    if (is_integer && value->get<std::int64_t>() >= least && value->get<std::int64_t>() <= most)
        return value->get<std::int64_t>();
    refuse("\"{}\" of {} is no number from {} to {}", name, what_, least, most);
    return std::nullopt;
}

std::optional<bool> Members::truth(const char* name) {
    const json* const value = take(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_boolean()) return value->get<bool>();
    refuse("\"{}\" of {} is neither true nor false", name, what_);
    return std::nullopt;
}

std::vector<std::string> Members::texts(const char* name) {
    const json* const value = take(name);
    if (value == nullptr) return {};
    const auto is_text = [](const json& element) { return element.is_string(); };
    if (value->is_array() && std::ranges::all_of(*value, is_text)) return value->get<std::vector<std::string>>();
    refuse("\"{}\" of {} is no list of texts", name, what_);
    return {};
}

const json* Members::any(const char* name) { return take(name); }

std::vector<json> Members::objects(const char* name) {
    const json* const value = take(name);
    if (value == nullptr) return {};
    const auto is_object = [](const json& element) { return element.is_object(); };
    if (value->is_array() && std::ranges::all_of(*value, is_object)) return {value->begin(), value->end()};
    refuse("\"{}\" of {} is no list of objects", name, what_);
    return {};
}

Result<void> Members::check() const {
    if (!error_.empty()) return bad_usage("{}", error_);
    for (const auto& [name, value] : object_.items())
        if (!taken_.contains(name)) return bad_usage("{} has \"{}\", which is not known", what_, printable(name));
    return {};
}

Error no_such_session(const std::string& name) {
    return {ErrorKind::kNotFound, fmt::format("there is no session \"{}\": see leat list", printable(name))};
}

Error daemon_ends() { return {ErrorKind::kRefused, "the session daemon is ending"}; }

Result<void> check_name(std::string_view name, const char* of_what) {
    constexpr std::size_t kMaxName = 200;
    const auto is_bad = [](char c) { return c == '/' || !is_printable(c); };
    if (name.empty() || name.size() > kMaxName)
        return bad_usage("the name of a {} has 1 to {} bytes, not {}", of_what, kMaxName, name.size());
    if (std::ranges::any_of(name, is_bad))
        return bad_usage("the name of a {} has no slash and no control characters: \"{}\"", of_what,
                         printable(std::string(name)));
    if (name == "metadata" || name == "." || name == "..")
        return bad_usage("\"{}\" is reserved: choose another name for the {}", name, of_what);
    return {};
}

Result<void> check_channel_name(std::string_view name) {
    LEAT_TRY(check_name(name, "channel"));
    if (name.starts_with('.')) return bad_usage("the name of a channel begins with no dot: \"{}\"", name);
    return {};
}

json answer_ok() { return {{"ok", true}}; }

json answer_error(const Error& error) {
    const char* kind = "io";
    switch (error.kind) {
        case ErrorKind::kCorrupt:
            kind = "usage";
            break;
        case ErrorKind::kUnsupported:
            kind = "unsupported";
            break;
        case ErrorKind::kNotFound:
            kind = "not-found";
            break;
        case ErrorKind::kRefused:
            kind = "refused";
            break;
        case ErrorKind::kIo:
        case ErrorKind::kDiskFull:
            break;
    }
    return {{"ok", false}, {"kind", kind}, {"error", error.message}, {"warnings", json::array()}};
}

}  // namespace leat::sessiond
