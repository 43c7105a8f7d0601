#include "relay/store/grouping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace leat::relay {
namespace {

constexpr std::string_view kDateForm = "00000000-000000";  // YYYYMMDD-HHMMSS

bool is_date(std::string_view text) {
    return text.size() == kDateForm.size() && std::ranges::equal(text, kDateForm, [](char c, char form) {
               return form == '-' ? c == '-' : c >= '0' && c <= '9';
           });
}

// "SESSION-DATE"; or SESSION alone, if the name ends with its date already.
std::string_view date_in(std::string_view directory, std::string_view session) {
    if (!directory.starts_with(session) || directory.size() < kDateForm.size()) return {};
    const std::string_view date = directory.substr(directory.size() - kDateForm.size());
    const bool is_appended = directory.size() == session.size() + 1 + date.size() && directory[session.size()] == '-';
    return is_date(date) && (is_appended || directory == session) ? date : std::string_view{};
}

}  // namespace

std::string grouped_by_session(const std::string& path, const std::string& host, const std::string& session,
                               const std::string& date) {
    std::string_view rest = path;
    if (!rest.starts_with(host + "/")) return path;
    rest.remove_prefix(host.size() + 1);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view own_date = date_in(rest.substr(0, end), session);
    if (own_date.empty()) return fmt::format("{}/{}-{}/{}", session, host, date, rest);
    return fmt::format("{}/{}-{}{}", session, host, own_date, rest.substr(end));
}

}  // namespace leat::relay
