// Histories of senders, a bad network and a forger: see tests/support/datagram_model.hpp. All that leaves the window is
// real, whole and in order. What waits is bounded. A forged datagram costs at most the packet whose number it has.
#include "model_run.hpp"
#include "support/datagram_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return leat::fuzz::run_model<leat::test::DatagramModel>(data, size);
}
