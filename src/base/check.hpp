// LEAT_CHECK stops the program when an invariant is broken, in release builds too. The tracer never uses it, because it
// lives in other programs.
#pragma once

#include <cstdio>
#include <cstdlib>

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage)
#define LEAT_CHECK(condition)                                                                              \
    do {                                                                                                   \
        if (!(condition)) {                                                                                \
            std::fprintf(stderr, "leat: broken invariant at %s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                                  \
        }                                                                                                  \
    } while (false)
