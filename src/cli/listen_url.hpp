#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace leat::cli {

// Where to listen.
struct ListenAddress {
    std::string address;  // an IP address, no name
    std::uint16_t port;
};

// tcp://(HOST|ADDRESS):PORT, an IPv6 address in brackets, as LTTng's relay takes it. Names are looked up.
Result<ListenAddress> parse_listen_url(const std::string& text);

// Where viewers are served if the user did not say: on this host only.
std::string local_address_for(const std::string& address);

}  // namespace leat::cli
