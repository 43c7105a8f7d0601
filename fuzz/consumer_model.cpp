// Histories of writers, consumer and output, faults among them: see tests/support/consumer_model.hpp. Nothing may be
// lost, told twice, or told out of order without being counted.
#include "support/consumer_model.hpp"

#include "base/check.hpp"
#include "fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace leat;
    fuzz::FuzzInput input(data, size);
    test::ConsumerModel model([&input](std::uint64_t bound) -> std::uint64_t {
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
