// What others see while an event is being written. Not in sanitized builds, which have other instructions.
#include <gtest/gtest.h>

#include "support/attached_tracer.hpp"
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

}  // namespace
}  // namespace leat::tracer
