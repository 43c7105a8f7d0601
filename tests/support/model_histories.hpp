// Random histories of a model. If one goes wrong, the test prints its seed and the fewest of its steps that still do.
//
//   LEAT_MODEL_SEED=N       this history only; it is not made shorter if LEAT_MODEL_SHRINK=0
//   LEAT_MODEL_STEPS=N      steps in a history
//   LEAT_MODEL_SECONDS=N    run for this long, with seeds from LEAT_MODEL_SEED on
#pragma once

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ring/sanitizers.hpp"
#include "support/model.hpp"
#include "support/patience.hpp"

namespace leat::test {

inline std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Which of a model's histories this build runs. Sanitizers make them slow: with addresses checked, there are a quarter
// of them, and with threads, another half. `./dev test --all` runs all without either.
struct Seeds {
    std::uint64_t first;
    std::uint64_t count;
};
constexpr Seeds seeds_here(std::uint64_t first, std::uint64_t count) {
#if defined(LEAT_THREAD_SANITIZER)
    return {first + count / 2, count - count / 2};
#elif defined(LEAT_ADDRESS_SANITIZER)
    return {first, count / 4};
#else
    return {first, count};
#endif
}

// A history is a seed and the numbers of its steps. Each step draws from a source of its own, so one step can be left
// out without changing the others. The model draws from further sources to begin and to finish.
struct ModelHistory {
    std::uint64_t seed = 0;
    std::vector<std::uint64_t> steps{};
};

struct ModelOutcome {
    std::string violation{};
    std::size_t steps = 0;  // taken
};

// Calls `look(model)` if the history ended well.
template <class Model, class Look>
ModelOutcome run_history(const ModelHistory& history, Look look) {
    std::mt19937_64 random;
    const auto draw_for = [&](std::uint64_t step) { random.seed(history.seed * 1'000'003 + step); };
    draw_for(~std::uint64_t{0});
    Model model([&random](std::uint64_t bound) { return random() % bound; });
    ModelOutcome outcome;
    for (const std::uint64_t step : history.steps) {
        if (!model.violation().empty()) break;
        draw_for(step);
        model.step();
        ++outcome.steps;
    }
    draw_for(~std::uint64_t{1});
    if (model.violation().empty()) model.finish();
    outcome.violation = model.violation();
    if (outcome.violation.empty()) look(model);
    return outcome;
}

// Leaves out steps that the failure does not need: first half of them, then a quarter, and so on, each as often as it
// helps.
template <class Model>
ModelHistory shrink(ModelHistory history, std::size_t steps) {
    history.steps.resize(std::min(history.steps.size(), steps));
    const Patience patience{std::chrono::seconds(number_from("LEAT_MODEL_SHRINK", 30))};
    for (std::size_t size = std::max<std::size_t>(history.steps.size() / 2, 1); size > 0;) {
        bool is_shorter = false;
        for (std::size_t at = 0; at < history.steps.size() && !patience.is_over();) {
            ModelHistory candidate = history;
            const auto begin = candidate.steps.begin() + static_cast<std::ptrdiff_t>(at);
            const std::size_t count = std::min(size, candidate.steps.size() - at);
            candidate.steps.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
            const ModelOutcome outcome = run_history<Model>(candidate, [](const Model&) {});
            if (outcome.violation.empty()) {
                at += size;
                continue;
            }
            candidate.steps.resize(outcome.steps);
            history = std::move(candidate);
            is_shorter = true;
        }
        if (!is_shorter) size /= 2;
        if (patience.is_over()) break;
    }
    return history;
}

template <class Model, class Look>
void run_histories(Seeds seeds, std::uint64_t steps, Look look) {
    const std::uint64_t first = number_from("LEAT_MODEL_SEED", seeds.first);
    const auto seconds = std::chrono::seconds(number_from("LEAT_MODEL_SECONDS", 0));
    const bool is_single = number_from("LEAT_MODEL_SEED", ~first) == first && seconds.count() == 0;
    const Patience trying(seconds);
    ModelHistory history{.seed = first};
    history.steps.resize(number_from("LEAT_MODEL_STEPS", steps));
    std::iota(history.steps.begin(), history.steps.end(), 0);
    for (std::uint64_t count = 0;; ++count, ++history.seed) {
        const bool is_enough = is_single ? count == 1 : count >= seeds.count;
        if (is_enough && trying.is_over()) return;
        const ModelOutcome outcome = run_history<Model>(history, look);
        if (outcome.violation.empty()) continue;
        if (number_from("LEAT_MODEL_SHRINK", 30) == 0) FAIL() << "seed " << history.seed << ": " << outcome.violation;
        const ModelHistory shorter = shrink<Model>(history, outcome.steps);
        FAIL() << "seed " << history.seed << ": " << outcome.violation
               << "\nwith these steps alone: " << fmt::format("{}", fmt::join(shorter.steps, " ")) << ": "
               << run_history<Model>(shorter, [](const Model&) {}).violation;
    }
}

}  // namespace leat::test
