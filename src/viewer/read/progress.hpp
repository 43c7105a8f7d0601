#pragma once

#include <cstdint>

namespace leat::viewer {

// What one turn of following something that grows has brought.
enum class Progress : std::uint8_t { kNews, kNothingNew, kEnded };

}  // namespace leat::viewer
