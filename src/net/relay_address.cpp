#include "net/relay_address.hpp"

#include "net/host_and_port.hpp"

namespace leat::net {
namespace {

constexpr std::string_view kScheme = "net://";
constexpr std::string_view kDatagramScheme = "net+udp://";

tl::unexpected<Error> bad_address(std::string_view url) {
    return refused("{} is not a relay's address: write net://HOST[:CONTROL[:DATA]], an IPv6 address in brackets", url);
}

}  // namespace

bool is_relay_address(std::string_view text) { return text.starts_with(kScheme) || text.starts_with(kDatagramScheme); }

Result<RelayAddress> parse_relay_address(std::string_view url) {
    if (!is_relay_address(url)) return bad_address(url);
    const bool takes_datagrams = url.starts_with(kDatagramScheme);
    std::string_view rest = url.substr(takes_datagrams ? kDatagramScheme.size() : kScheme.size());
    while (rest.ends_with('/')) rest.remove_suffix(1);
    RelayAddress address{.host = take_host(rest), .takes_datagrams = takes_datagrams};
    if (address.host.empty()) return bad_address(url);
    for (std::uint16_t* port : {&address.control_port, &address.data_port}) {
        if (rest.empty()) break;
        if (!rest.starts_with(':')) return bad_address(url);
        const std::string_view digits = rest.substr(1, rest.find(':', 1) - 1);
        const auto parsed = parse_port(digits);
        if (!parsed) return bad_address(url);
        *port = *parsed;
        rest.remove_prefix(1 + digits.size());
    }
    if (!rest.empty()) return bad_address(url);
    return address;
}

std::string to_text(const RelayAddress& address) { return host_and_port(address.host, address.control_port); }

}  // namespace leat::net
