// What others see while an event is being written. Not in sanitized builds, which have other instructions.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <vector>

#include "support/attached_tracer.hpp"
#include "support/skip.hpp"
#include "support/stepped_child.hpp"

namespace leat::tracer {
namespace {

// A consumer woken earlier would find nothing, and arm the bell again.
TEST(WriteSteps, BellRingsBehindTheCommit) {
    test::AttachedTracer tracer;
    tracer.do_without_rseq();  // an rseq sequence would begin again at each step
    test::SteppedChild child([&](auto window) {
        tracer.emit();
        ring::RingHeader& ring = *find_filled(tracer.channel(), channel_key(tracer.channel().number))->ring;
        ring.limit = ring.head;
        window.open();
        tracer.emit();
        window.close();
    });
    const std::uint64_t records = tracer.records();
    const std::uint32_t bells = tracer.bells();
    while (!child.is_done() && tracer.bells() == bells) child.step();
    EXPECT_EQ(tracer.bells(), bells + 1);
    EXPECT_EQ(tracer.records(), records + 1);
}

// A second tracepoint, for events of a signal handler.
class HandlersTracepoint {
  public:
    void switch_to(const std::vector<wire::Action>& actions) { EXPECT_TRUE(control_.switch_to(0, actions)); }
    void emit() { leat_write(&tracepoint_, nullptr, 0, staged_, 8); }

  private:
    alignas(16) char staged_[8 + LEAT_STAGE_SLACK] = {};
    leat_tracepoint tracepoint_{&tracepoint_.off, 0, 0, "test:handler", "test.c", nullptr, nullptr, 0, 6, 0, 1, {}};
    test::ControlMemoryOf memory_{tracepoint_};
    wire::ControlFile control_ = *wire::ControlFile::open(memory_.take_fd(), wire::Lane::kRecorder);
};

HandlersTracepoint* of_handler = nullptr;

// Its events displace all that the thread keeps, several times.
void emit_much(int /*signal*/) {
    for (int i = 0; i < 20; ++i) of_handler->emit();
}

// An event must not get into the ring that a signal handler's events went to meanwhile. Stops before the sequence,
// which would begin again at each step.
TEST(WriteSteps, SignalHandlerOfOtherChannelsLeavesTheEventItsOwn) {
    LEAT_NEEDS(test::has_rseq(), "rseq");
    test::AttachedTracer tracer;
    tracer.channel().sees_vforks = true;  // so that events go straight
    HandlersTracepoint handlers;
    of_handler = &handlers;
    std::vector<std::unique_ptr<test::OtherChannel>> others;
    std::vector<wire::Action> actions;
    for (std::uint32_t i = 0; i < kThreadChannels + 1; ++i) {
        others.push_back(std::make_unique<test::OtherChannel>(0));
        others.back()->channel().sees_vforks = true;
        actions.push_back({.event_id = 7 + i, .channel = others.back()->channel().number});
    }
    handlers.switch_to(actions);
    ASSERT_NE(::signal(SIGUSR1, emit_much), SIG_ERR);
    constexpr std::size_t kSteps = 150;  // more than there are as far as the sequence
    for (std::size_t at = 0; at < kSteps && !HasFailure(); ++at) {
        test::SteppedChild child([&](auto window) {
            thread_state = {};  // of the first event's channel, which goes straight then
            tracer.emit();
            window.open();
            tracer.emit();
            window.close();
        });
        const std::uint64_t records = tracer.records();
        const std::uint64_t others_records = others[0]->records();
        for (std::size_t step = 0; step < at; ++step) child.step();
        if (child.is_done()) break;
        child.finish_with(SIGUSR1);
        EXPECT_EQ(tracer.records(), records + 1) << "after step " << at;
        for (const auto& other : others) EXPECT_EQ(other->records(), others_records + 20) << "after step " << at;
    }
}

}  // namespace
}  // namespace leat::tracer
