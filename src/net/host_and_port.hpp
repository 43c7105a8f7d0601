// HOST:PORT as people write it, an IPv6 address in brackets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace leat::net {

// Takes the host off the front of `text` and returns it without its brackets; ports may follow. Returns an empty string
// if there is no valid host.
std::string take_host(std::string_view& text);

Result<std::uint16_t> parse_port(std::string_view text);

std::string host_and_port(std::string_view host, std::uint16_t port);

}  // namespace leat::net
