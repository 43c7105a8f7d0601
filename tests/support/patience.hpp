// How long a test waits for something before it calls that a hang. A test waits for a state, and never for a time to go
// by: any thread or process may stand still for seconds on a busy machine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace leat::test {

// LEAT_TEST_PATIENCE, in seconds.
inline std::chrono::seconds test_patience() {
    constexpr std::chrono::seconds kDefault{120};
    const char* const text = std::getenv("LEAT_TEST_PATIENCE");  // NOLINT(concurrency-mt-unsafe)
    const long seconds = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
    return seconds > 0 ? std::chrono::seconds(seconds) : kDefault;
}

// The same, for poll().
inline int test_patience_ms() { return static_cast<int>(std::chrono::milliseconds(test_patience()).count()); }

// Begins now. Of another length: for what a test tries for a while, however often that is.
class Patience {
  public:
    explicit Patience(std::chrono::milliseconds length = test_patience()) : end_(begin_ + length) {}
    [[nodiscard]] bool is_over() const { return Clock::now() >= end_; }  // moment: patience

    [[nodiscard]] std::chrono::nanoseconds elapsed() const { return Clock::now() - begin_; }  // moment: to be printed

  private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point end_;
};

// Returns whether the condition came about. Calls `meanwhile` between two looks.
template <class Condition, class Meanwhile>
bool wait_until(Condition condition, Meanwhile meanwhile) {
    for (const Patience patience; !patience.is_over(); meanwhile())
        if (condition()) return true;
    return condition();
}

template <class Condition>
bool wait_until(Condition condition) {
    return wait_until(std::move(condition),
                      [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });  // moment: between two looks
}

// Whether a thread of this process sleeps in the kernel.
inline bool is_asleep(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t end_of_name = text.rfind(')');
    return end_of_name != std::string::npos && text.substr(end_of_name, 3) == ") S";
}

}  // namespace leat::test
