// A fuzzer's bytes as the steps of a model.
#pragma once

#include <cstdio>

#include "base/check.hpp"
#include "fuzz_input.hpp"

namespace leat::fuzz {

template <class Model>
int run_model(const std::uint8_t* data, std::size_t size) {
    FuzzInput input(data, size);
    Model model([&input](std::uint64_t bound) -> std::uint64_t {
        if (bound <= 1U << 8) return input.take<std::uint8_t>() % bound;
        if (bound <= 1U << 16) return input.take<std::uint16_t>() % bound;
        return input.take<std::uint64_t>() % bound;
    });
    while (!input.is_empty() && model.violation().empty()) model.step();
    if (model.violation().empty()) model.finish();
    if (!model.violation().empty()) std::fprintf(stderr, "%s\n", model.violation().c_str());
    LEAT_CHECK(model.violation().empty());
    return 0;
}

}  // namespace leat::fuzz
