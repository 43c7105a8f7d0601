#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::consumer {

// Where a relay listens for the tracing side: net://HOST[:CONTROL[:DATA]], an IPv6 address in brackets; net+udp:// if
// packets go there as datagrams.
struct RelayAddress {
    std::string host;
    std::uint16_t control_port = wire::kControlPort;
    std::uint16_t data_port = wire::kDataPort;
    bool takes_datagrams = false;

    bool operator==(const RelayAddress&) const = default;
};

// Whether the text means a relay, right or wrong: not a path.
bool is_relay_address(std::string_view text);

Result<RelayAddress> parse_relay_address(std::string_view url);

// HOST:PORT as people write it.
std::string to_text(const RelayAddress& address);

}  // namespace leat::consumer
