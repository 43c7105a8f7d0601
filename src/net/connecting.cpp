#include "net/connecting.hpp"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

namespace leat::net {
namespace {

// A host that is gone sends nothing, not even a reset. After this long without its acknowledgement, the connection is
// lost.
constexpr unsigned kUserTimeoutMs = 60'000;
constexpr int kKeepAliveIdleSeconds = 20;

template <class T>
void set_option(const UniqueFd& socket, int level, int option, T value) {
    ::setsockopt(socket.get(), level, option, &value, sizeof value);  // the socket works without it, only worse
}

bool connect(const UniqueFd& socket, const sockaddr_storage& address) {
    const socklen_t size = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    const auto* peer = reinterpret_cast<const sockaddr*>(&address);  // NOLINT(*-reinterpret-cast)
    return ::connect(socket.get(), peer, size) == 0;
}

}  // namespace

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

Result<UniqueFd> start_connecting(const HostAddress& host, std::uint16_t port) {
    const sockaddr_storage address = host.with_port(port);
    UniqueFd socket(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) return io_error("cannot create a socket");
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    if (!connect(socket, address) && errno != EINPROGRESS) return fail(ErrorKind::kIo, "{}", std::strerror(errno));
    return socket;
}

Result<UniqueFd> open_datagram_socket(const HostAddress& host, std::uint16_t port) {
    const sockaddr_storage address = host.with_port(port);
    UniqueFd socket(::socket(address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) return io_error("cannot create a socket");
    // Let a network of small frames fragment the datagrams: otherwise none would arrive.
    if (address.ss_family == AF_INET6)
        set_option(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DONT);
    else
        set_option(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
    if (!connect(socket, address)) return io_error("cannot connect");
    return socket;
}

}  // namespace leat::net
