#pragma once

#include <fmt/format.h>

#include <string>

#include "base/byte_cursor.hpp"

namespace leat::test {

// The bytes as tests write them down: two lower-case digits each, without spaces.
inline std::string hex(UntrustedBytes bytes) {
    std::string text;
    for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    return text;
}

}  // namespace leat::test
