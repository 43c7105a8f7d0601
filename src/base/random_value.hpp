#pragma once

#include <sys/random.h>

#include "base/check.hpp"

namespace leat {

// A random value from the kernel, which nobody can guess. T is an integer or an array of bytes.
template <class T>
T random_value() {
    T value{};
    LEAT_CHECK(::getrandom(&value, sizeof value, 0) == static_cast<ssize_t>(sizeof value));
    return value;
}

}  // namespace leat
