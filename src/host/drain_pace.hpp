#pragma once

#include <algorithm>
#include <chrono>

namespace leat::host {

// How long to wait from one drain to the next while there is more to drain.
//
// Events that come meanwhile share a packet, and readers see them so much later. The CPU time of the recorder and its
// relay grows with the number of packets: for live readers, at 10,000 events a second, the shortest pause leaves a
// third of it. Where nobody waits, the pause becomes as long as it may before a writer has to ring:
//
//     a drain found      nothing    less than half of what rings    up to 3/4 of it    more
//     the next pause is  as long    half as long again              as long            half as long
class DrainPace {
  public:
    using Duration = std::chrono::steady_clock::duration;

    static constexpr std::chrono::microseconds kShortest{250};

    // A pause takes `longest` at most, or the shortest one if that is more.
    explicit DrainPace(Duration longest) : longest_(std::max<Duration>(longest, kShortest)) {}

    [[nodiscard]] Duration pause() const { return pause_; }

    // Somebody waits: a writer rang, or there is room again for what had to stay in a ring.
    void hurry() { pause_ = kShortest; }

    // A drain that came after the pause has found so much in the ring that was nearest to ringing, or to being full: 1
    // is what rings, or all of it.
    void note(double found) {
        if (found > 0.75)
            pause_ = std::max<Duration>(pause_ / 2, kShortest);
        else if (found > 0 && found < 0.5)
            pause_ = std::min(pause_ * 3 / 2, longest_);
    }

  private:
    Duration longest_;
    Duration pause_ = kShortest;
};

}  // namespace leat::host
