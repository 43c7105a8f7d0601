// Histories of producers and viewers, including faults, against a relay on a thread of this process: see
// tests/support/relay_model.hpp. What was acknowledged is there at the end, what is visible is complete, and nobody
// changes what belongs to another.
#include "support/relay_model.hpp"

#include "base/check.hpp"
#include "fuzz_input.hpp"

namespace leat::fuzz::relay_model {

LEAT_FUZZ_TARGET(relay_model) {
    FuzzInput input(data, size);
    const test::Draw draw = [&input](std::uint64_t bound) -> std::uint64_t {
        if (bound <= 1U << 8) return input.take<std::uint8_t>() % bound;
        if (bound <= 1U << 16) return input.take<std::uint16_t>() % bound;
        return input.take<std::uint64_t>() % bound;
    };
    test::RelayModel model(std::make_unique<test::ThreadedRelay>());
    while (!input.is_empty() && model.violation().empty()) model.step(draw);
    if (model.violation().empty()) model.finish(draw);
    if (!model.violation().empty())
        for (const std::string& line : model.history()) std::fprintf(stderr, "    %s\n", line.c_str());
    if (!model.violation().empty()) std::fprintf(stderr, "%s\n", model.violation().c_str());
    LEAT_CHECK(model.violation().empty());
    return 0;
}

}  // namespace leat::fuzz::relay_model
