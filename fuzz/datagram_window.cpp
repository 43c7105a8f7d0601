// Histories of senders, a bad network, and somebody who forges datagrams: see tests/support/datagram_model.hpp. What
// leaves is real, whole and in order; what waits is bounded; and a forged datagram costs at most the packet whose
// number it bears.
#include <cstdio>

#include "base/check.hpp"
#include "fuzz_input.hpp"
#include "support/datagram_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace leat;
    fuzz::FuzzInput input(data, size);
    test::DatagramModel model([&input](std::uint64_t bound) -> std::uint64_t {
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
