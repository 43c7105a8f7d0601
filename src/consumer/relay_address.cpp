#include "consumer/relay_address.hpp"

#include <netdb.h>

#include <charconv>
#include <cstring>
#include <memory>

namespace leat::consumer {
namespace {

constexpr std::string_view kScheme = "net://";
constexpr std::string_view kDatagramScheme = "net+udp://";

tl::unexpected<Error> bad_address(std::string_view url) {
    return refused("{} is no relay's address: write net://HOST[:CONTROL[:DATA]], an IPv6 address in brackets", url);
}

// Everything up to the colon in front of the ports; empty if there is none that makes sense.
std::string_view host_of(std::string_view rest) {
    if (!rest.starts_with('[')) return rest.substr(0, rest.find(':'));
    const std::size_t end = rest.find(']');
    return end == std::string_view::npos ? std::string_view() : rest.substr(0, end + 1);
}

Result<std::uint16_t> parse_port(std::string_view text) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.begin(), text.end(), port);
    if (error != std::errc() || end != text.end() || port == 0) return refused("{} is no port", text);
    return port;
}

}  // namespace

bool is_relay_address(std::string_view text) { return text.starts_with(kScheme) || text.starts_with(kDatagramScheme); }

Result<RelayAddress> parse_relay_address(std::string_view url) {
    if (!is_relay_address(url)) return bad_address(url);
    const bool takes_datagrams = url.starts_with(kDatagramScheme);
    std::string_view rest = url.substr(takes_datagrams ? kDatagramScheme.size() : kScheme.size());
    while (rest.ends_with('/')) rest.remove_suffix(1);
    const std::string_view host = host_of(rest);
    rest.remove_prefix(host.size());
    RelayAddress address{.host = std::string(host), .takes_datagrams = takes_datagrams};
    if (host.starts_with('[')) address.host = host.substr(1, host.size() - 2);
    if (address.host.empty() || address.host.find('/') != std::string::npos) return bad_address(url);
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

std::string to_text(const RelayAddress& address) {
    const bool is_ipv6 = address.host.find(':') != std::string::npos;
    return is_ipv6 ? fmt::format("[{}]:{}", address.host, address.control_port)
                   : fmt::format("{}:{}", address.host, address.control_port);
}

HostAddress::HostAddress(const sockaddr& address) {
    std::memcpy(&storage_, &address, address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
}

sockaddr_storage HostAddress::with_port(std::uint16_t port) const {
    sockaddr_storage address = storage_;
    // Both families have the port at the same place.
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    const std::uint16_t big_endian = htons(port);
    std::memcpy(reinterpret_cast<char*>(&address) + offsetof(sockaddr_in, sin_port),  // NOLINT(*-reinterpret-cast)
                &big_endian, sizeof big_endian);
    return address;
}

Result<std::vector<HostAddress>> resolve(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int status = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
    if (status != 0) return not_found("cannot find the host {}: {}", host, ::gai_strerror(status));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
    std::vector<HostAddress> addresses;
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next)
        if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6) addresses.emplace_back(*entry->ai_addr);
    if (addresses.empty()) return not_found("the host {} has no IP address", host);
    return addresses;
}

}  // namespace leat::consumer
