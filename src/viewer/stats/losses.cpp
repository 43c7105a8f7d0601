#include "viewer/stats/losses.hpp"

namespace leat::viewer {

void Losses::add(const Message& message) {
    // A counter that has gone back, as one of fewer bits does when it wraps, says something very large.
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 62U;
    if (!message.loss.count || *message.loss.count > kLargest) {
        ++unknown;
        return;
    }
    std::uint64_t& sum = message.kind == Message::Kind::kDiscardedEvents ? events : packets;
    if (__builtin_add_overflow(sum, *message.loss.count, &sum)) sum = UINT64_MAX;
}

}  // namespace leat::viewer
