#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace leat::net {

// net://HOST[:PORT][/host/TARGET/SESSION]: a relay as its viewers name it, and one of its sessions. HOST may be an IPv6
// address in brackets; `net6` is the same as `net`.
struct RelayUrl {
    std::string host{};
    std::uint16_t port = 0;     // of the live protocol
    std::string target_host{};  // where the session is traced; empty, like `session`, if only the relay is named
    std::string session{};

    [[nodiscard]] bool names_session() const { return !session.empty(); }
    // "HOST:PORT"
    [[nodiscard]] std::string address() const;
    // The URL of a session of this relay.
    [[nodiscard]] std::string url_of(std::string_view target, std::string_view name) const;

    bool operator==(const RelayUrl&) const = default;
};

// Whether the text is meant as a relay's URL, even a malformed one, and not as a path.
bool is_relay_url(std::string_view text);

Result<RelayUrl> parse_relay_url(std::string_view text);

}  // namespace leat::net
