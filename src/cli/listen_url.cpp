#include "cli/listen_url.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string_view>

#include "net/host_and_port.hpp"

namespace leat::cli {
namespace {

constexpr std::string_view kScheme = "tcp://";

bool is_loopback(const std::string& address) {
    in_addr v4{};
    if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return address.starts_with("127.");
    return address == "::1";
}

}  // namespace

Result<ListenUrl> parse_listen_url(const std::string& text) {
    const auto bad = [&] { return refused("\"{}\" is not of the form tcp://ADDRESS:PORT", text); };
    std::string_view rest = text;
    if (!rest.starts_with(kScheme)) return bad();
    rest.remove_prefix(kScheme.size());
    const std::string host = net::take_host(rest);
    if (host.empty() || !rest.starts_with(':')) return bad();
    rest.remove_prefix(1);
    const bool is_free_port = rest == "0";
    const auto port = is_free_port ? Result<std::uint16_t>(0) : net::parse_port(rest);
    if (!port) return wrap(text, port.error());
    return ListenUrl{host, *port};
}

Result<std::string> address_of(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    addrinfo* found = nullptr;
    const int status = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
    if (status != 0) return not_found("{}: {}: give an IP address of this host", host, ::gai_strerror(status));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
    std::array<char, NI_MAXHOST> address{};
    const int named =
        ::getnameinfo(found->ai_addr, found->ai_addrlen, address.data(), address.size(), nullptr, 0, NI_NUMERICHOST);
    if (named != 0) return not_found("{}: {}: give an IP address of this host", host, ::gai_strerror(named));
    return std::string(address.data());
}

std::string local_address_for(const std::string& address) {
    if (is_loopback(address)) return address;
    return address.find(':') == std::string::npos ? "127.0.0.1" : "::1";
}

}  // namespace leat::cli
