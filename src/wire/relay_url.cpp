#include "wire/relay_url.hpp"

#include <charconv>

#include "wire/live_messages.hpp"

namespace leat::wire {
namespace {

constexpr std::string_view kForm = "net://HOST[:PORT][/host/TARGET/SESSION]";

tl::unexpected<Error> bad(std::string_view text) { return refused("{} is not of the form {}", text, kForm); }

Result<std::uint16_t> parse_port(std::string_view text, std::string_view url) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port == 0)
        return refused("{}: '{}' is not a port", url, text);
    return port;
}

// Takes the host off `rest`; a port may follow it.
Result<std::string> take_host(std::string_view& rest, std::string_view url) {
    const bool is_bracketed = rest.starts_with('[');
    const std::size_t end = is_bracketed ? rest.find(']') : rest.find(':');
    if (is_bracketed && end == std::string_view::npos) return bad(url);
    std::string host(is_bracketed ? rest.substr(1, end - 1) : rest.substr(0, end));
    if (host.empty()) return bad(url);
    rest.remove_prefix(is_bracketed ? end + 1 : host.size());
    return host;
}

}  // namespace

std::string RelayUrl::address() const {
    const bool is_ip6 = host.find(':') != std::string::npos;
    return is_ip6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string RelayUrl::url_of(std::string_view target, std::string_view name) const {
    const std::string relay = port == kLivePort ? address().substr(0, address().rfind(':')) : address();
    return fmt::format("net://{}/host/{}/{}", relay, target, name);
}

bool is_relay_url(std::string_view text) { return text.starts_with("net://") || text.starts_with("net6://"); }

Result<RelayUrl> parse_relay_url(std::string_view text) {
    if (!is_relay_url(text)) return bad(text);
    std::string_view rest = text.substr(text.find("://") + 3);
    const std::size_t slash = rest.find('/');
    std::string_view path = slash == std::string_view::npos ? std::string_view() : rest.substr(slash);
    rest = rest.substr(0, slash);
    RelayUrl url;
    url.host = LEAT_TRY(take_host(rest, text));
    url.port = kLivePort;
    if (!rest.empty() && rest.front() != ':') return bad(text);
    if (!rest.empty()) url.port = LEAT_TRY(parse_port(rest.substr(1), text));
    if (path.empty() || path == "/") return url;
    constexpr std::string_view kHost = "/host/";
    if (!path.starts_with(kHost)) return bad(text);
    path.remove_prefix(kHost.size());
    const std::size_t end = path.find('/');
    if (end == 0 || end == std::string_view::npos || end + 1 == path.size()) return bad(text);
    url.target_host = path.substr(0, end);
    url.session = path.substr(end + 1);
    return url;
}

}  // namespace leat::wire
