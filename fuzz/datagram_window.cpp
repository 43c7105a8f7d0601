// Histories of senders, a bad network and a forger: see tests/support/datagram_model.hpp. All that leaves the window is
// real, whole and in order. What waits is bounded. A forged datagram costs at most the packet whose number it has.
#include "model_run.hpp"
#include "support/datagram_model.hpp"

namespace leat::fuzz::datagram_window {

LEAT_FUZZ_TARGET(datagram_window) { return run_model<test::DatagramModel>(data, size); }

}  // namespace leat::fuzz::datagram_window
