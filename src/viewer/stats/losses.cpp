#include "viewer/stats/losses.hpp"

namespace leat::viewer {

void Losses::add(const Message& message) {
    if (!message.loss.count) {
        ++unknown;
        return;
    }
    // What a packet says of losses may be anything.
    std::uint64_t& sum = message.kind == Message::Kind::kDiscardedEvents ? events : packets;
    if (__builtin_add_overflow(sum, *message.loss.count, &sum)) sum = UINT64_MAX;
}

}  // namespace leat::viewer
