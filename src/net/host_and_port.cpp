#include "net/host_and_port.hpp"

#include <charconv>

namespace leat::net {

std::string take_host(std::string_view& text) {
    const bool is_bracketed = text.starts_with('[');
    const std::size_t end = text.find(is_bracketed ? ']' : ':');
    if (is_bracketed && end == std::string_view::npos) return {};
    const std::string_view host = is_bracketed ? text.substr(1, end - 1) : text.substr(0, end);
    // Such a host, written out again, would be read as something else.
    if (host.find_first_of("[]/") != std::string_view::npos) return {};
    text.remove_prefix(is_bracketed ? end + 1 : host.size());
    return std::string(host);
}

Result<std::uint16_t> parse_port(std::string_view text) {
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.begin(), text.end(), port);
    if (error != std::errc() || end != text.end() || port == 0) return refused("'{}' is not a port", text);
    return port;
}

std::string host_and_port(std::string_view host, std::uint16_t port) {
    const bool is_ipv6 = host.find(':') != std::string_view::npos;
    return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

}  // namespace leat::net
