#pragma once

#include <cstdint>

#include "viewer/merge/message.hpp"

namespace leat::viewer {

// What traces say that they do not have.
struct Losses {
    std::uint64_t events = 0;
    std::uint64_t packets = 0;
    std::uint64_t unknown = 0;  // times that it is not known how many; also where a counter has gone back

    void add(const Message& message);
};

}  // namespace leat::viewer
