#include "net/relay_url.hpp"

#include "net/host_and_port.hpp"
#include "net/relay_address.hpp"

namespace leat::net {
namespace {

constexpr std::string_view kForm = "net://HOST[:PORT][/host/TARGET/SESSION]";

tl::unexpected<Error> bad(std::string_view text) { return refused("{} is not of the form {}", text, kForm); }

}  // namespace

std::string RelayUrl::address() const { return host_and_port(host, port); }

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
    url.host = take_host(rest);
    url.port = kLivePort;
    if (url.host.empty() || (!rest.empty() && rest.front() != ':')) return bad(text);
    if (!rest.empty()) {
        auto port = parse_port(rest.substr(1));
        if (!port) return wrap(text, std::move(port).error());
        url.port = *port;
    }
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

}  // namespace leat::net
