// A consumer that is interrupted at any instruction of a drain. Not in sanitized builds, which have other instructions.
#include <gtest/gtest.h>

#include "consumer/consumer.hpp"
#include "support/stepped_child.hpp"
#include "support/test_rings.hpp"

namespace leat::consumer {
namespace {

constexpr std::uint64_t kNow = test::kStartOfTime + 1'000'000;
constexpr std::uint64_t kLater = kNow + 10'000'000'000;

// What a reader was told: the number of events, and the latest time before which nothing more will come.
struct Heard {
    std::uint64_t told;
    std::uint64_t events;
};

class Reader final : public Output {
  public:
    explicit Reader(Heard& heard) : heard_(heard) {}
    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const Packet& packet) override {
        heard_.events += packet.events;
        return {};
    }
    void write_beacon(std::uint64_t, std::uint64_t timestamp) override { hear(timestamp); }
    void cycle_done(std::uint64_t horizon) override { hear(horizon); }

  private:
    void hear(std::uint64_t time) { heard_.told = std::max(heard_.told, time); }
    Heard& heard_;
};

// Between two instructions, an event is stamped and written, and ten seconds pass. If the drain gives this event to
// readers, they may be told of later times. If it does not, they must not.
TEST(DrainSteps, NothingThatIsStillToComeIsOlderThanWhatIsTold) {
    test::TestRings rings(ring::kMinRingSize, 1);
    ring::RingHeader& ring = *rings.map().ring(0);
    const ring::RingHeader empty = ring;
    const test::Shared<ring::ClockPage> clock;
    const auto at = [&](std::uint64_t now) {
        clock->lines[0] = {.tsc_base = 0, .ns_base = now, .multiplier = 0, .unused = 0};
    };
    rings.set().header().thread_rings_used = 0;
    ctf::RecordWalker walker(ring::kCompactHeader, 0);
    walker.add({.id = 1, .name = "test:nothing", .fields = ctf::StructClass{}});
    const test::Shared<Heard> heard;
    const char staged[ring::kCopySlack]{};
    at(kNow);

    std::size_t with_event = 0;
    std::size_t without_event = 0;
    const auto drain_once = [&](auto window) {
        Reader reader(*heard);
        Consumer consumer(
            rings.set(), walker, reader,
            {.trace_uuid = {}, .stream_class_id = 0, .wake_after = 100, .clock = &*clock, .margin = 1'000});
        window.open();
        const auto drained = consumer.drain();
        window.close();
    };
    const auto write_and_wait = [&] {
        rings.at(kNow);
        rings.write_to(ring, test::TestEvent{ring::HeaderKind::kCompact, 1}, staged, 0);
        at(kLater);
    };
    const auto check = [&] {
        const bool has_event = heard->events != 0;
        EXPECT_TRUE(has_event || heard->told <= kNow) << heard->told;
        ++(has_event ? with_event : without_event);
        ring = empty;
        *heard = {};
        at(kNow);
    };
    test::interrupt_everywhere(drain_once, write_and_wait, check, 4);
    EXPECT_GT(with_event, 5U);
    EXPECT_GT(without_event, 5U);
}

}  // namespace
}  // namespace leat::consumer
