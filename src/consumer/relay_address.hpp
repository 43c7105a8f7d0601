#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "wire/relay_messages.hpp"

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

// One of the host's addresses, without a port.
class HostAddress {
  public:
    explicit HostAddress(const sockaddr& address);

    // The same with a port, as connect() takes it.
    [[nodiscard]] sockaddr_storage with_port(std::uint16_t port) const;

  private:
    sockaddr_storage storage_{};
};

// Asks the system's resolver, and waits for it. At least one address.
Result<std::vector<HostAddress>> resolve(const std::string& host);

}  // namespace leat::consumer
