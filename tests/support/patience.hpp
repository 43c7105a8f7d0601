// How long tests wait for a state before they call it a hang: LEAT_TEST_PATIENCE in seconds, or 120.
#pragma once

#include <chrono>
#include <cstdlib>
#include <thread>

namespace leat::test {

inline std::chrono::seconds patience() {
    const char* const seconds = std::getenv("LEAT_TEST_PATIENCE");
    return std::chrono::seconds(seconds == nullptr ? 120 : std::strtol(seconds, nullptr, 10));
}

// Whether the condition holds before patience ends.
template <typename Condition>
bool eventually(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + patience();
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
}

}  // namespace leat::test
