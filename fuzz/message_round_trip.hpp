// A message that a peer sent, read, encoded, and read again.
#pragma once

#include <array>

#include "base/check.hpp"
#include "wire/layout.hpp"

namespace leat::fuzz {

template <class Message>
void round_trip(UntrustedBytes bytes, std::uint32_t minor) {
    const auto message = wire::parse<Message>(bytes, minor);
    if (!message) {
        // One line for a log, whatever the peer sent.
        for (const char c : message.error().message) LEAT_CHECK(static_cast<unsigned char>(c) >= ' ');
        return;
    }
    // Not the same bytes: padding, and what lies behind a name, is dropped. But from then on nothing changes.
    const wire::Bytes encoded = wire::encode(*message, minor);
    const auto again = wire::parse<Message>(encoded, minor);
    LEAT_CHECK(again.has_value());
    LEAT_CHECK(wire::encode(*again, minor) == encoded);
}

}  // namespace leat::fuzz
