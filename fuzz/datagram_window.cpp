// Histories of senders, a bad network, and somebody who forges datagrams: see tests/support/datagram_model.hpp. What
// leaves is real, whole and in order; what waits is bounded; and a forged datagram costs at most the packet whose
// number it bears.
#include "model_run.hpp"
#include "support/datagram_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return leat::fuzz::run_model<leat::test::DatagramModel>(data, size);
}
