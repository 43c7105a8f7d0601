// The rings of CPUs: each is mapped by the first event there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <optional>
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

// Whether this process can store into the page without a fault.
bool is_mapped(const void* page) {
    const int fd = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    std::uint64_t entry = 0;
    const auto number = reinterpret_cast<std::uintptr_t>(page) / ring::kPageSize;  // NOLINT(*-reinterpret-cast)
    EXPECT_EQ(::pread(fd, &entry, sizeof entry, static_cast<off_t>(number * sizeof entry)), sizeof entry);
    ::close(fd);
    return (entry >> 63) != 0;
}

// The ring of a CPU, large enough to be read ahead, and the tracepoint's channel.
class RingsAhead : public CpuRings {
  protected:
    static constexpr std::uint64_t kSize = 1U << 20;

    void SetUp() override {
        CpuRings::SetUp();
        if (IsSkipped()) return;
        auto message = AttachedTracer::channel_message(AttachedTracer::next_number());
        message.ring_size = kSize;
        channel_ = attach_channel(message, set_.fd(), clock_.fd());
        ASSERT_NE(channel_, nullptr);
        tracer_.emplace();
        tracer_->switch_to({{.event_id = 1, .channel = channel_->number}});
        OnOneCpu::move_to(cpu_);
    }

    // Emits an event that meets the ring's limit.
    void emit_at_limit() {
        header().limit = header().head;
        tracer_->emit();
    }
    [[nodiscard]] ring::RingHeader& header() const { return set_.ring(cpu_); }
    // Where a writer stores what is at this position.
    [[nodiscard]] const char* at(std::uint64_t position) const {
        return reinterpret_cast<const char*>(channel_->mapped[cpu_]) + ring::kPageSize + position;  // NOLINT
    }
    // How many of the pieces that the kernel maps at once have been read.
    [[nodiscard]] std::uint64_t pieces() const {
        std::uint64_t count = 0;
        for (std::uint64_t position = 0; position < kSize; position += kMappedAtOnce) count += is_mapped(at(position));
        return count;
    }

    std::optional<AttachedTracer> tracer_;  // which stays on one CPU
    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create({.ring_size = kSize,
                                                 .cpu_rings = AttachedTracer::geometry().cpu_rings,
                                                 .thread_rings = AttachedTracer::geometry().thread_rings},
                                                ring::clock_now(clock_.page()));
    Channel* channel_ = nullptr;
};

TEST_F(RingsAhead, PagesAheadOfTheFirstEventAreRead) {
    header().head = 5 * kMappedAtOnce + 8;
    tracer_->emit();
    EXPECT_TRUE(is_mapped(at(5 * kMappedAtOnce)));
    EXPECT_EQ(pieces(), 1U);
    header().limit = kSize;
    tracer_->emit();
    EXPECT_EQ(pieces(), 1U);
    emit_at_limit();
    for (std::uint64_t piece = 5; piece < 13; ++piece) EXPECT_TRUE(is_mapped(at(piece * kMappedAtOnce))) << piece;
    EXPECT_EQ(pieces(), 8U);
}

// Records lie twice in a process's memory, so that none is split; writers begin them in the first half.
TEST_F(RingsAhead, PagesBehindTheWrapAreReadWhereWritersUseThem) {
    header().head = header().tail = 2 * kSize - kMappedAtOnce + 8;
    tracer_->emit();
    emit_at_limit();
    EXPECT_TRUE(is_mapped(at(kSize - kMappedAtOnce)));
    for (std::uint64_t piece = 0; piece < 7; ++piece) EXPECT_TRUE(is_mapped(at(piece * kMappedAtOnce))) << piece;
    EXPECT_EQ(pieces(), 8U);
}

TEST_F(RingsAhead, EachPageIsReadOnce) {
    for (std::uint64_t turn = 0; turn < 10; ++turn) {
        header().head = header().tail = turn * kTouchedAtLimit + 8;
        emit_at_limit();
    }
    EXPECT_EQ(pieces(), kSize / kMappedAtOnce);
    EXPECT_EQ(channel_->touched[cpu_].left, 0U);
    EXPECT_EQ(channel_->touched[cpu_].end, kSize);
}

// What other processes have written lies behind the head; and the head may have gone back.
TEST_F(RingsAhead, WhateverTheHeaderSaysItStaysInTheRing) {
    tracer_->emit();
    const std::uint64_t most = UINT64_MAX;
    for (const std::uint64_t head : {most, most / 2, most / 2 + 1, most - kSize, std::uint64_t{0}, kSize * 1000 + 1}) {
        header().head = head;
        touch_ahead(*channel_, cpu_, kTouchedAtLimit);
        EXPECT_LE(channel_->touched[cpu_].left, kSize - kMappedAtOnce);
    }
}

// A child has its parent's mapping, but none of its pages.
TEST_F(RingsAhead, ChildReadsAheadForItself) {
    emit_at_limit();
    emit_at_limit();
    ASSERT_EQ(pieces(), 8U);
    const pid_t child = ::fork();
    if (child == 0) {
        const bool had_none = pieces() == 0;
        emit_at_limit();
        ::_exit(had_none && pieces() == 8 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
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
