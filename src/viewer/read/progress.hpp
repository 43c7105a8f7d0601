#pragma once

#include <cstdint>

namespace leat::viewer {

// The result of reading on in something that grows.
enum class Progress : std::uint8_t { kNews, kNothingNew, kEnded };

}  // namespace leat::viewer
