// The common part of all models: random steps, and a first violation.
#pragma once

#include <cstdint>
#include <functional>

namespace leat::test {

// Returns a number below `bound`, which is not 0.
using Choose = std::function<std::uint64_t(std::uint64_t bound)>;

}  // namespace leat::test
