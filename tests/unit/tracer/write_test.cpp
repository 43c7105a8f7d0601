// What happens to an event: it is in a ring, or it is counted by its reason. And whether the bell rings.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.hpp"
#include "support/attached_tracer.hpp"
#include "support/skip.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using test::AttachedTracer;
using test::Writer;

class Write : public testing::TestWithParam<Writer> {
  protected:
    Write() {
        if (GetParam() == Writer::kOfThread) tracer_.do_without_rseq();
    }
    void SetUp() override {
        LEAT_NEEDS(GetParam() == Writer::kOfThread || test::has_rseq(), "rseq");
        tracer_.emit();
        ASSERT_EQ(tracer_.records(), 1U);
        ring_ = tracer_.used_ring();
        bells_ = tracer_.bells();
    }
    [[nodiscard]] std::uint32_t new_bells() const { return tracer_.bells() - bells_; }

    AttachedTracer tracer_;
    ring::RingHeader* ring_ = nullptr;
    std::uint32_t bells_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Both, Write, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

TEST_P(Write, EventThatMeetsTheLimitIsWrittenAndRings) {
    ring_->limit = ring_->head;
    tracer_.emit();
    EXPECT_EQ(tracer_.records(), 2U);
    EXPECT_EQ(new_bells(), 1U);
    EXPECT_EQ(ring_->limit, ring_->tail + AttachedTracer::kRingSize) << "the wish is taken down";
    tracer_.emit();
    EXPECT_EQ(new_bells(), 1U) << "once is enough";
}

TEST_P(Write, FullRingRingsOnceAndCountsWhatFindsNoRoom) {
    ring_->limit = AttachedTracer::kRingSize / 2;
    constexpr std::uint64_t kEvents = 2 * AttachedTracer::kRingSize / AttachedTracer::kRecordSize;
    for (std::uint64_t i = 1; i < kEvents; ++i) tracer_.emit();
    EXPECT_EQ(new_bells(), 1U);
    EXPECT_GE(tracer_.records(), AttachedTracer::kRingSize / AttachedTracer::kRecordSize - 2);
    EXPECT_EQ(tracer_.records() + tracer_.discarded(DiscardReason::kRingFull), kEvents);
    EXPECT_EQ(tracer_.discarded(), tracer_.discarded(DiscardReason::kRingFull));
}

TEST_P(Write, TooLargeIsCounted) {
    const std::uint64_t largest = ring::max_record_size(AttachedTracer::kRingSize) - wire::kMaxContextSize;
    EXPECT_EQ(leat_stage_large(&tracer_.tracepoint(), largest + 1), nullptr);
    EXPECT_EQ(leat_stage_large(&tracer_.tracepoint(), ~std::size_t{0}), nullptr);
    EXPECT_EQ(tracer_.discarded(DiscardReason::kTooLarge), 2U);
    EXPECT_EQ(tracer_.discarded(), 2U);
    void* const staged = leat_stage_large(&tracer_.tracepoint(), largest);
    ASSERT_NE(staged, nullptr);
    leat_write_large(&tracer_.tracepoint(), staged, largest);
    EXPECT_EQ(tracer_.records(), 2U);
    EXPECT_EQ(tracer_.discarded(), 2U);
}

TEST_P(Write, LargeOneWithoutABufferIsCounted) {
    std::vector<void*> staged;
    while (void* const buffer = leat_stage_large(&tracer_.tracepoint(), 1'000)) staged.push_back(buffer);
    EXPECT_EQ(staged.size(), kStagingBuffers);
    EXPECT_EQ(tracer_.discarded(DiscardReason::kInterrupted), 1U);
    for (void* const buffer : staged) leat_write_large(&tracer_.tracepoint(), buffer, 1'000);
    EXPECT_EQ(tracer_.records(), 1U + staged.size());
    // The buffers are free again.
    void* const again = leat_stage_large(&tracer_.tracepoint(), 1'000);
    ASSERT_NE(again, nullptr);
    leat_write_large(&tracer_.tracepoint(), again, 1'000);
}

TEST_P(Write, ErrnoIsKept) {
    thread_state.generation = 0;  // as in a new thread: it asks the kernel which thread it is
    ring_->limit = ring_->head;   // and the bell rings
    errno = ENOTTY;
    tracer_.emit();
    EXPECT_EQ(errno, ENOTTY);
    EXPECT_EQ(new_bells(), 1U);
}

class WriteOfThread : public testing::Test {
  protected:
    WriteOfThread() { tracer_.do_without_rseq(); }
    // Marks each ring as owned by a thread of another PID namespace. Nobody can tell that such a thread is dead.
    void take_all_rings() {
        for (std::uint32_t i = 0; i < AttachedTracer::geometry().thread_rings; ++i)
            tracer_.header(AttachedTracer::geometry().cpu_rings + i).owner = 1ULL << 32 | 1;
    }
    AttachedTracer tracer_;
};

TEST_F(WriteOfThread, WithoutAFreeRingIsCounted) {
    take_all_rings();
    tracer_.emit();
    EXPECT_EQ(tracer_.records(), 0U);
    EXPECT_EQ(tracer_.discarded(DiscardReason::kNoRing), 1U);
}

TEST_F(WriteOfThread, InASignalHandlerOfAThreadThatWritesIsCounted) {
    tracer_.emit();
    thread_state.is_writing = 1;
    tracer_.emit();
    thread_state.is_writing = 0;
    EXPECT_EQ(tracer_.records(), 1U);
    EXPECT_EQ(tracer_.discarded(DiscardReason::kInterrupted), 1U);
}

class AttachChannel : public testing::Test {
  protected:
    AttachChannel() {
        message_.session_id = 1;
        message_.ring_size = ring::kMinRingSize;
        message_.cpu_ring_count = set_.geometry().cpu_rings;
        message_.thread_ring_count = set_.geometry().thread_rings;
    }

    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create(AttachedTracer::geometry(), 5);
    wire::RegistrationDoneMessage message_{};
};

// The ring set states the same values, but programs can write to it, so the tracer does not use those.
TEST_F(AttachChannel, GeometryIsThatOfTheAnswer) {
    set_.header().ring_size = 2 * ring::kMinRingSize;
    set_.header().cpu_ring_count = 10'000;
    set_.header().thread_ring_count = 10'000;
    ASSERT_TRUE(attach_channel(message_, set_.fd(), clock_.fd()));
    EXPECT_EQ(process_channel.map.size(), ring::kMinRingSize);
    EXPECT_EQ(process_channel.map.cpu_ring_count, set_.geometry().cpu_rings);
    EXPECT_LE(process_channel.map.thread_ring_count, set_.geometry().thread_rings);
}

TEST_F(AttachChannel, MemoryThatIsTooSmallIsRefused) {
    message_.cpu_ring_count += 1;
    EXPECT_FALSE(attach_channel(message_, set_.fd(), clock_.fd()));
}

// The same bytes lie in files that somebody may truncate later.
TEST_F(AttachChannel, MemoryThatCanShrinkIsRefused) {
    const auto unsealed_copy = [](int of) {
        UniqueFd copy(::memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        struct stat status {};
        EXPECT_EQ(::fstat(of, &status), 0);
        off_t offset = 0;
        EXPECT_EQ(::sendfile(copy.get(), of, &offset, ring::kPageSize), static_cast<ssize_t>(ring::kPageSize));
        EXPECT_EQ(::ftruncate(copy.get(), status.st_size), 0);
        return copy;
    };
    EXPECT_FALSE(attach_channel(message_, unsealed_copy(set_.fd()).get(), clock_.fd()));
    EXPECT_FALSE(attach_channel(message_, set_.fd(), unsealed_copy(clock_.fd()).get()));
    EXPECT_TRUE(attach_channel(message_, set_.fd(), clock_.fd()));
}

}  // namespace
}  // namespace leat::tracer
