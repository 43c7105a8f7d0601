// Reads a message that a peer sent, encodes it, and reads it again.
#pragma once

#include <array>

#include "base/check.hpp"
#include "wire/layout.hpp"

namespace leat::fuzz {

template <class Message>
void round_trip(UntrustedBytes bytes, std::uint32_t minor) {
    const auto message = wire::parse<Message>(bytes, minor);
    if (!message) {
        // Whatever the peer sent, the error must be one line for a log.
        for (const char c : message.error().message) LEAT_CHECK(static_cast<unsigned char>(c) >= ' ');
        return;
    }
    // The bytes may differ, because padding and bytes after a name are dropped. From then on nothing may change.
    const wire::Bytes encoded = wire::encode(*message, minor);
    const auto again = wire::parse<Message>(encoded, minor);
    LEAT_CHECK(again.has_value());
    LEAT_CHECK(wire::encode(*again, minor) == encoded);
}

}  // namespace leat::fuzz
