#include "tracer/touch_ahead.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/memory_place.hpp"
#include "base/unique_fd.hpp"
#include "support/attached_tracer.hpp"
#include "support/skip.hpp"
#include "support/test_rings.hpp"

namespace leat::tracer {
namespace {

using test::AttachedTracer;
using test::OnOneCpu;

// Whether this process has mapped the page, so that it can store there without a fault.
bool is_mapped(const char* page) {
    const UniqueFd pages(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    std::uint64_t entry = 0;
    const auto number = reinterpret_cast<std::uintptr_t>(page) / ring::kPageSize;  // NOLINT(*-reinterpret-cast)
    EXPECT_EQ(::pread(pages.get(), &entry, sizeof entry, static_cast<off_t>(number * sizeof entry)), sizeof entry);
    return (entry >> 63) != 0;
}

// The ring of a CPU, so large that it is worth reading ahead, in the tracepoint's channel. How many pages around the
// one that was read a kernel maps is its own affair: one of 16 is what counts here.
class RingsAhead : public testing::Test {
  protected:
    static constexpr std::uint64_t kSize = 1U << 20;

    void SetUp() override {
        // Attaching maps the first CPU's ring.
        LEAT_NEEDS(test::has_rseq() && cpu_ != 0, "two CPUs");
        LEAT_NEEDS(::access("/proc/self/pagemap", R_OK) == 0, "pagemap");
        LEAT_NEEDS(!is_memory_limited(), "unlimited-memory");
        auto message = AttachedTracer::channel_message(AttachedTracer::next_number());
        message.ring_size = kSize;
        channel_ = attach_channel(message, set_.fd(), clock_.fd());
        ASSERT_NE(channel_, nullptr);
        tracer_.emplace();
        tracer_->switch_to({{.event_id = 1, .channel = channel_->number}});
        OnOneCpu::move_to(cpu_);
    }

    // As their consumer does.
    void make_pages(std::uint64_t bytes) { reader_.touch_ahead(bytes); }
    void begin_at(std::uint64_t position) const { header().head = header().tail = position; }
    // Emits an event that meets the ring's limit.
    void emit_at_limit() {
        header().limit = header().head;
        tracer_->emit();
    }
    [[nodiscard]] ring::RingHeader& header() const { return set_.ring(cpu_); }
    // Where a writer stores what is at this position, in the first half of the mapping.
    [[nodiscard]] const char* place_of(std::uint64_t position) const {
        const char* const ring = reinterpret_cast<const char*>(channel_->mapped[cpu_]);  // NOLINT(*-reinterpret-cast)
        return ring + ring::kPageSize + (position & (kSize - 1));
    }
    // Whether the page was read, or another one with which the kernel maps it.
    [[nodiscard]] bool is_read(std::uint64_t position) const {
        const char* const page = place_of(position & ~(ring::kPageSize - 1));
        const char* const first = page - reinterpret_cast<std::uintptr_t>(page) % kMappedAtOnce;  // NOLINT
        const char* const records = place_of(0);
        for (const char* one = std::max(first, records); one <= page; one += ring::kPageSize)
            if (is_mapped(one)) return true;
        return false;
    }
    [[nodiscard]] bool is_all_read(std::uint64_t begin, std::uint64_t end) const {
        for (std::uint64_t position = begin; position < end; position += ring::kPageSize)
            if (!is_read(position)) return false;
        return true;
    }
    // Pages that exist, of all rings.
    [[nodiscard]] std::uint64_t allocated() const {
        struct stat status {};
        EXPECT_EQ(::fstat(set_.fd(), &status), 0);
        return static_cast<std::uint64_t>(status.st_blocks) * 512;
    }

    std::uint32_t cpu_ = test::usable_cpus().back();
    std::optional<AttachedTracer> tracer_;  // which stays on one CPU
    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create({.ring_size = kSize,
                                                 .cpu_rings = AttachedTracer::geometry().cpu_rings,
                                                 .thread_rings = AttachedTracer::geometry().thread_rings},
                                                ring::clock_now(clock_.page()));
    ring::RingReader reader_ = set_.reader(cpu_);
    Channel* channel_ = nullptr;
};

TEST_F(RingsAhead, PagesAheadOfTheFirstEventAreRead) {
    constexpr std::uint64_t kBegin = 5 * kMappedAtOnce - 100;
    make_pages(kSize);
    begin_at(kBegin);
    tracer_->emit();
    EXPECT_TRUE(is_mapped(place_of(kBegin & ~(ring::kPageSize - 1))));
    EXPECT_TRUE(is_all_read(kBegin, kBegin + kTouchedAhead - ring::kPageSize));
    EXPECT_FALSE(is_read(kBegin + kTouchedAhead + kMappedAtOnce));
    begin_at(kBegin + kTouchedAhead / 2);
    emit_at_limit();
    EXPECT_TRUE(is_all_read(kBegin, kBegin + kTouchedAhead / 2 + kTouchedAhead - ring::kPageSize));
}

// The program pays for each page that it makes; and it would map that one alone.
TEST_F(RingsAhead, NoPageIsMade) {
    make_pages(kMappedAtOnce);
    tracer_->emit();
    EXPECT_TRUE(is_all_read(0, kMappedAtOnce));
    const std::uint64_t before = allocated();
    emit_at_limit();
    EXPECT_EQ(allocated(), before);
    make_pages(4 * kMappedAtOnce);
    EXPECT_EQ(allocated(), before + 3 * kMappedAtOnce);
    emit_at_limit();
    EXPECT_TRUE(is_all_read(0, 4 * kMappedAtOnce));
    EXPECT_EQ(allocated(), before + 3 * kMappedAtOnce);
}

// Records lie twice in a process's memory, so that none is split; writers begin them in the first half.
TEST_F(RingsAhead, PagesBehindTheWrapAreReadWhereWritersUseThem) {
    make_pages(kSize);
    begin_at(3 * kSize - kMappedAtOnce + 8);
    tracer_->emit();
    EXPECT_TRUE(is_all_read(kSize - kMappedAtOnce, kSize));
    EXPECT_TRUE(is_all_read(0, kTouchedAhead - kMappedAtOnce));
}

TEST_F(RingsAhead, ItEndsWhenItHasBeenAround) {
    make_pages(kSize);
    for (std::uint64_t turn = 0; turn < 3; ++turn) {
        begin_at(turn * kTouchedAhead);
        emit_at_limit();
    }
    EXPECT_TRUE(is_all_read(0, kSize));
    EXPECT_EQ(channel_->touched[cpu_].left, 0U);
    EXPECT_EQ(channel_->touched[cpu_].end, kSize);
}

// Positions that a reader has not brought into being, and such as no ring can have.
TEST_F(RingsAhead, WhateverTheHeaderSaysItStaysInTheRing) {
    tracer_->emit();
    const std::uint64_t most = UINT64_MAX;
    for (const std::uint64_t head : {most, most / 2, most / 2 + 1, most - kSize, std::uint64_t{0}, kSize * 1000 + 1})
        for (const std::uint64_t touched : {most, most / 2 + 1, std::uint64_t{0}, kSize - 1, head, head + kSize}) {
            channel_->touched[cpu_].left = kSize;
            header().head = head;
            header().touched = touched;
            touch_ahead(*channel_, cpu_);
            EXPECT_GE(channel_->touched[cpu_].left, kSize - kTouchedAhead - kMappedAtOnce) << head << ' ' << touched;
        }
}

// A child has its parent's mapping, but none of its pages.
TEST_F(RingsAhead, ChildReadsAheadForItself) {
    make_pages(kSize);
    tracer_->emit();
    ASSERT_TRUE(is_all_read(0, kTouchedAhead));
    const pid_t child = ::fork();
    if (child == 0) {
        if (is_read(0)) ::_exit(2);
        tracer_->emit();
        ::_exit(is_all_read(0, kTouchedAhead) ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace leat::tracer
