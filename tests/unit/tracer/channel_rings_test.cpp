// The rings of CPUs: each is mapped by the first event there.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <thread>
#include <vector>

#include "support/attached_tracer.hpp"
#include "support/skip.hpp"
#include "support/test_rings.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using test::AttachedTracer;
using test::OnOneCpu;

// With rseq, attaching maps the first ring, to see whether that works. These tests use the last CPU's.
class CpuRings : public testing::Test {
  protected:
    void SetUp() override {
        LEAT_NEEDS(test::has_rseq() && test::usable_cpus().back() != 0, "two CPUs");
        cpu_ = test::usable_cpus().back();
    }
    std::uint32_t cpu_ = 0;
};

TEST_F(CpuRings, RingIsMappedByItsFirstEvent) {
    AttachedTracer tracer;
    tracer.emit();
    EXPECT_EQ(tracer.channel().mapped[cpu_], nullptr);
    OnOneCpu::move_to(cpu_);
    tracer.emit();
    EXPECT_NE(tracer.channel().mapped[cpu_], nullptr);
    EXPECT_EQ(tracer.header(cpu_).next_records, 1U);
    EXPECT_EQ(tracer.records(), 2U);
    EXPECT_EQ(tracer.discarded(), 0U);
}

// A thread is taken off the CPU while it maps the ring, and the next one there maps it, too: here, on two CPUs.
TEST_F(CpuRings, ThreadsThatComeTogetherUseOneMapping) {
    for (int round = 0; round < 100; ++round) {
        AttachedTracer tracer;
        std::barrier together(2);
        std::array<ring::RingHeader*, 2> mapped{};
        const auto map = [&](std::size_t thread, std::uint32_t cpu) {
            OnOneCpu::move_to(cpu);
            together.arrive_and_wait();
            mapped.at(thread) = map_ring(tracer.channel(), cpu_);
        };
        std::thread other(map, 1, cpu_);
        map(0, test::usable_cpus().front());
        other.join();
        ASSERT_NE(mapped[0], nullptr);
        ASSERT_EQ(mapped[0], mapped[1]);
        ASSERT_EQ(mapped[0]->limit, AttachedTracer::kRingSize);
    }
}

// The memory of rings may have an end (vm.overcommit_memory), and a store into what is not there yet would be SIGBUS.
TEST(ThreadRings, PromisedRingIsThereWholeBeforeItsFirstRecord) {
    const ring::RingSetGeometry geometry = AttachedTracer::geometry();
    const auto set = ring::RingSet::create(geometry, 1, MemoryPlace::promised());
    const auto clock = ring::SharedClock::create();
    ASSERT_TRUE(set && clock);
    make_process_page();
    const auto message = AttachedTracer::channel_message(AttachedTracer::next_number());
    const Channel* const channel = attach_channel(message, set->fd(), clock->fd());
    ASSERT_NE(channel, nullptr);
    const auto allocated = [&set] {
        struct stat status {};
        EXPECT_EQ(::fstat(set->fd(), &status), 0);
        return static_cast<std::uint64_t>(status.st_blocks) * 512;
    };
    const std::uint64_t before = allocated();
    ASSERT_NE(map_ring(*channel, geometry.cpu_rings), nullptr);
    EXPECT_EQ(allocated(), before + geometry.ring_size);
}

// The ring's header counts what its records cannot take.
TEST_F(CpuRings, WithoutAddressSpaceEventsAreCounted) {
    AttachedTracer tracer;
    const pid_t child = ::fork();
    if (child == 0) {
        const struct rlimit nothing_more {
            1, 1
        };
        OnOneCpu::move_to(cpu_);
        if (::setrlimit(RLIMIT_AS, &nothing_more) != 0) ::_exit(1);
        errno = 77;
        tracer.emit();
        tracer.emit();
        ::_exit(errno == 77 ? 0 : 2);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(tracer.records(), 0U);
    EXPECT_EQ(tracer.discarded(DiscardReason::kNoRing), 2U);
}

}  // namespace
}  // namespace leat::tracer
