// From a host's name to a socket. Only resolve() waits.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::net {

// One of the host's addresses, without a port.
class HostAddress {
  public:
    explicit HostAddress(const sockaddr& address);

    // This address with a port, as connect() takes it.
    [[nodiscard]] sockaddr_storage with_port(std::uint16_t port) const;

  private:
    sockaddr_storage storage_{};
};

// Asks the system's resolver and waits for the answer: at least one address.
Result<std::vector<HostAddress>> resolve(const std::string& host);

// Starts to connect. Bytes may be queued at once; a failure to connect shows when they are sent.
Result<UniqueFd> start_connecting(const HostAddress& host, std::uint16_t port);

// A socket that sends datagrams to that address. There is no connection to wait for.
Result<UniqueFd> open_datagram_socket(const HostAddress& host, std::uint16_t port);

}  // namespace leat::net
