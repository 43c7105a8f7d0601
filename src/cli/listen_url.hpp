#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace leat::cli {

// Where to listen.
struct ListenUrl {
    std::string host;  // its name, or an IP address
    std::uint16_t port;
};

// tcp://(HOST|ADDRESS):PORT, an IPv6 address in brackets, as LTTng's relay takes it.
Result<ListenUrl> parse_listen_url(const std::string& text);

// The IP address of a host. Names are looked up.
Result<std::string> address_of(const std::string& host);

// Where viewers are served if the user did not say: on this host only.
std::string local_address_for(const std::string& address);

}  // namespace leat::cli
