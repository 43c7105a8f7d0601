#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace leat::net {

// The ports of LTTng's relay, and of ours.
inline constexpr std::uint16_t kControlPort = 5342;
inline constexpr std::uint16_t kDataPort = 5343;  // and, for datagrams, the UDP port of the same number
inline constexpr std::uint16_t kLivePort = 5344;

// Where a relay listens for the tracing side: net://HOST[:CONTROL[:DATA]], an IPv6 address in brackets; net+udp:// if
// packets go there as datagrams.
struct RelayAddress {
    std::string host;
    std::uint16_t control_port = kControlPort;
    std::uint16_t data_port = kDataPort;
    bool takes_datagrams = false;

    bool operator==(const RelayAddress&) const = default;
};

// Whether the text is meant as a relay's address, even a malformed one, and not as a path.
bool is_relay_address(std::string_view text);

Result<RelayAddress> parse_relay_address(std::string_view url);

// HOST:PORT as people write it.
std::string to_text(const RelayAddress& address);

}  // namespace leat::net
