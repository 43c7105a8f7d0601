// Where a machine lacks what a test needs, the test is skipped and says so, and tools/test counts it. In continuous
// integration (CI=true) that is a failure, unless tests/allowed-skips names what is lacking, and why.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace leat::test {

inline bool is_in_ci() {
    const char* const ci = std::getenv("CI");  // NOLINT(concurrency-mt-unsafe)
    return ci != nullptr && std::string_view(ci) == "true";
}

// Whether a test may be skipped for lack of this. The file's lines are "CAPABILITY: REASON".
inline bool is_allowed_skip(const std::string& capability) {
    std::ifstream list(LEAT_TEST_DATA "/../allowed-skips");
    for (std::string line; std::getline(list, line);)
        if (line.starts_with(capability + ": ")) return true;
    return false;
}

// Notes that something is skipped, in a form that tools/test finds. Returns whether that is allowed.
inline bool note_skip(const std::string& capability) {
    std::printf("leat-skip: %s\n", capability.c_str());
    std::fflush(stdout);
    return !is_in_ci() || is_allowed_skip(capability);
}

}  // namespace leat::test

// Ends the GoogleTest test or set-up in which it stands.
#define LEAT_NEEDS(condition, capability)              \
    if (condition) {                                   \
    } else if (!leat::test::note_skip(capability))     \
        FAIL() << "this machine lacks " << capability; \
    else                                               \
        GTEST_SKIP() << capability
