// What happens to an event: it is in a ring, or it is counted by its reason. And whether the bell rings.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include "base/unique_fd.hpp"
#include "support/attached_tracer.hpp"
#include "support/skip.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using ring::RingHeader;
using test::AttachedTracer;
using test::OtherChannel;
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
    const std::uint64_t largest = ring::max_record_size(AttachedTracer::kRingSize);
    const auto write_large = [&](std::uint64_t size) {
        void* const staged = leat_stage_large(&tracer_.tracepoint(), size);
        ASSERT_NE(staged, nullptr);
        leat_write_large(&tracer_.tracepoint(), nullptr, 0, staged, size);
    };
    write_large(largest + 1);
    EXPECT_EQ(leat_stage_large(&tracer_.tracepoint(), ring::kMaxRecordSize + 1), nullptr);
    EXPECT_EQ(leat_stage_large(&tracer_.tracepoint(), ~std::size_t{0}), nullptr);
    EXPECT_EQ(tracer_.discarded(DiscardReason::kTooLarge), 3U);
    EXPECT_EQ(tracer_.discarded(), 3U);
    write_large(largest);
    EXPECT_EQ(tracer_.records(), 2U);
    EXPECT_EQ(tracer_.discarded(), 3U);
}

TEST_P(Write, LargeOneWithoutABufferIsCounted) {
    std::vector<void*> staged;
    while (void* const buffer = leat_stage_large(&tracer_.tracepoint(), 1'000)) staged.push_back(buffer);
    EXPECT_EQ(staged.size(), kStagingBuffers);
    EXPECT_EQ(tracer_.discarded(DiscardReason::kInterrupted), 1U);
    for (void* const buffer : staged) leat_write_large(&tracer_.tracepoint(), nullptr, 0, buffer, 1'000);
    EXPECT_EQ(tracer_.records(), 1U + staged.size());
    // The buffers are free again.
    void* const again = leat_stage_large(&tracer_.tracepoint(), 1'000);
    ASSERT_NE(again, nullptr);
    leat_write_large(&tracer_.tracepoint(), nullptr, 0, again, 1'000);
}

TEST_P(Write, ErrnoIsKept) {
    begin_new_generation();      // as after a change of names: it asks the kernel which thread it is
    ring_->limit = ring_->head;  // and the bell rings
    errno = ENOTTY;
    tracer_.emit();
    EXPECT_EQ(errno, ENOTTY);
    EXPECT_EQ(new_bells(), 1U);
}

// The thread changed its name, and nobody told us: after a while the new one is in all channels.
TEST(WriteOfCpu, NewNameIsInEachChannel) {
    LEAT_NEEDS(test::has_rseq(), "rseq");
    AttachedTracer tracer;
    OtherChannel first(wire::kContextProcname);
    OtherChannel second(wire::kContextProcname);
    for (OtherChannel* other : {&first, &second}) other->channel().sees_vforks = false;
    tracer.switch_to({{.event_id = 1, .channel = first.channel().number},  //
                      {.event_id = 2, .channel = second.channel().number}});
    std::array<char, 16> before{};
    ::prctl(PR_GET_NAME, before.data());
    const auto emit_as = [&](const char* name) {
        ::syscall(SYS_prctl, PR_SET_NAME, name);
        ::usleep(2'000);  // moment: longer than it takes a thread to ask again; more is as good
        tracer.emit();
    };
    emit_as("old-name");
    emit_as("new-name");
    ::prctl(PR_SET_NAME, before.data());
    for (const OtherChannel* other : {&first, &second}) {
        std::string bytes;
        for (std::uint32_t ring = 0; ring < other->set().geometry().cpu_rings; ++ring)
            bytes.append(test::records_of(other->set(), ring), 1'000);
        EXPECT_NE(bytes.find("old-name"), std::string::npos);
        EXPECT_NE(bytes.find("new-name"), std::string::npos);
    }
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

// Else a thread that goes on for long would own more and more rings.
TEST_F(WriteOfThread, ThatHasForgottenItsRingGetsThatOneBack) {
    // A process with rseq has mapped the rings of guests alone, and threads share these.
    RingHeader& first = tracer_.header(AttachedTracer::geometry().cpu_rings);
    first.owner = 1ULL << 32 | 1;
    tracer_.emit();
    EXPECT_EQ(tracer_.records(), 1U);
    first.owner = 0;
    begin_new_generation();
    tracer_.emit();
    EXPECT_EQ(tracer_.records(), 2U);
    EXPECT_EQ(first.owner, 0U);
}

TEST_F(WriteOfThread, InASignalHandlerOfAThreadThatWritesIsCounted) {
    tracer_.emit();
    thread_state.is_writing = 1;
    tracer_.emit();
    thread_state.is_writing = 0;
    EXPECT_EQ(tracer_.records(), 1U);
    EXPECT_EQ(tracer_.discarded(DiscardReason::kInterrupted), 1U);
}

// What the daemon says while the program runs.
TEST_P(Write, SwitchedOffIsNotWritten) {
    tracer_.switch_to({});
    tracer_.emit();
    EXPECT_EQ(leat_stage_large(&tracer_.tracepoint(), 1'000), nullptr);
    EXPECT_EQ(tracer_.records(), 1U);
    EXPECT_EQ(tracer_.discarded(), 0U);
    tracer_.switch_to({{.event_id = 2, .channel = tracer_.channel().number}});
    tracer_.emit();
    EXPECT_EQ(tracer_.records(), 2U);
}

TEST_P(Write, UnknownChannelIsCounted) {
    tracer_.switch_to({{.event_id = 2, .channel = AttachedTracer::next_number()}});
    tracer_.emit();
    tracer_.emit();
    EXPECT_EQ(tracer_.records(), 1U);
    EXPECT_EQ(*tracer_.control().not_attached(), 2U);
}

// Numbers of two daemons may be anything.
TEST_P(Write, ChannelsOfAnyNumbersStayAttached) {
    const std::uint32_t number = tracer_.channel().number;
    const OtherChannel second(0, number + (kMaxChannels << 2));
    const OtherChannel third(0, number ^ 3);
    EXPECT_EQ(find_channel(number), &tracer_.channel());
    EXPECT_EQ(find_channel(second.channel().number), &second.channel());
    EXPECT_EQ(find_channel(third.channel().number), &third.channel());
    tracer_.emit();
    EXPECT_EQ(tracer_.records(), 2U);
}

TEST_P(Write, EachChannelGetsItsRecord) {
    // More channels than a thread remembers.
    std::vector<std::unique_ptr<OtherChannel>> others;
    std::vector<wire::Action> actions{{.event_id = 1, .channel = tracer_.channel().number}};
    for (std::uint32_t i = 0; i < 2 * kThreadChannels; ++i) {
        others.push_back(std::make_unique<OtherChannel>(i % 2 == 0 ? 0 : wire::kAllContexts));
        if (GetParam() == Writer::kOfThread) others.back()->channel().has_rseq = false;
        actions.push_back({.event_id = i, .channel = others.back()->channel().number});
    }
    tracer_.switch_to(actions);
    for (int i = 0; i < 10; ++i) tracer_.emit();
    EXPECT_EQ(tracer_.records(), 11U);
    for (const auto& other : others) EXPECT_EQ(other->records(), 10U);
    tracer_.switch_to({actions[3]});
    tracer_.emit();
    EXPECT_EQ(tracer_.records(), 11U);
    EXPECT_EQ(others[1]->records(), 10U);
    EXPECT_EQ(others[2]->records(), 11U);
    EXPECT_EQ(tracer_.discarded(), 0U);
}

TEST_P(Write, LanesAreServedAtOnce) {
    OtherChannel other(0);
    if (GetParam() == Writer::kOfThread) other.channel().has_rseq = false;
    wire::ControlFile user = *wire::ControlFile::open(UniqueFd(::dup(tracer_.control().fd())), wire::Lane::kUser);
    const std::vector<wire::Action> action{{.event_id = 3, .channel = other.channel().number}};
    ASSERT_TRUE(user.switch_to(0, action));
    // Whichever of the two the fast path knows by then.
    for (int i = 0; i < 100; ++i) tracer_.emit();
    EXPECT_EQ(tracer_.records(), 101U);
    EXPECT_EQ(other.records(), 100U);
    tracer_.switch_to({});
    for (int i = 0; i < 100; ++i) tracer_.emit();
    EXPECT_EQ(tracer_.records(), 101U);
    EXPECT_EQ(other.records(), 200U);
    EXPECT_TRUE(user.switch_to(0, {}));
    tracer_.switch_to({{.event_id = 1, .channel = tracer_.channel().number}});
    for (int i = 0; i < 100; ++i) tracer_.emit();
    EXPECT_EQ(tracer_.records(), 201U);
    EXPECT_EQ(other.records(), 200U);
}

// The oldest one is no longer written to, and nothing is written anywhere else.
TEST_P(Write, ChannelBeyondTheMostTakesAnOldOnesPlace) {
    std::vector<std::unique_ptr<OtherChannel>> others;
    for (std::uint32_t i = 0; i < kMaxChannels; ++i) others.push_back(std::make_unique<OtherChannel>(0));
    tracer_.emit();
    EXPECT_EQ(tracer_.records(), 1U);
    EXPECT_EQ(*tracer_.control().not_attached(), 1U);
    for (const auto& other : others) EXPECT_EQ(other->records(), 0U);
}

// A daemon has switched it on, but its channel could not be attached. (CTest runs this in a process of its own.)
TEST(WriteWithoutAChannel, LargeOneIsCounted) {
    make_process_page();
    leat_tracepoint tracepoint{&tracepoint.off, 0, 0, "test:event", "test.c", nullptr, nullptr, 0, 6, 0, 1, {}};
    test::ControlMemoryOf memory(tracepoint);
    wire::ControlFile control = *wire::ControlFile::open(memory.take_fd(), wire::Lane::kRecorder);
    const std::vector<wire::Action> action{{.event_id = 1, .channel = AttachedTracer::next_number()}};
    ASSERT_TRUE(control.switch_to(0, action));
    constexpr std::size_t kSize = 100'000;
    for (int i = 0; i < 2; ++i) {
        void* const staged = leat_stage_large(&tracepoint, kSize);
        if (staged == nullptr) continue;
        std::memset(staged, 0, kSize);
        leat_write_large(&tracepoint, nullptr, 0, staged, kSize);
    }
    EXPECT_EQ(*control.not_attached(), 2U);
}

class AttachChannel : public testing::Test {
  protected:
    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create(AttachedTracer::geometry(), 5);
    wire::ChannelMessage message_ = AttachedTracer::channel_message(AttachedTracer::next_number());
};

TEST_F(AttachChannel, KnownNumberKeepsItsRings) {
    const Channel* const channel = attach_channel(message_, set_.fd(), clock_.fd());
    ASSERT_NE(channel, nullptr);
    const ring::RingSet other = *ring::RingSet::create(AttachedTracer::geometry(), 5);
    EXPECT_EQ(attach_channel(message_, other.fd(), clock_.fd()), channel);
}

// Its records would not be what the daemon describes.
TEST_F(AttachChannel, UnknownContextIsRefused) {
    message_.contexts = wire::kAllContexts + 1;
    EXPECT_EQ(attach_channel(message_, set_.fd(), clock_.fd()), nullptr);
    message_.contexts = wire::kAllContexts;
    EXPECT_NE(attach_channel(message_, set_.fd(), clock_.fd()), nullptr);
}

// The ring set states the same values, but programs can write to it, so the tracer does not use those.
TEST_F(AttachChannel, GeometryIsThatOfTheAnswer) {
    set_.header().ring_size = 2 * ring::kMinRingSize;
    set_.header().cpu_ring_count = 10'000;
    set_.header().thread_ring_count = 10'000;
    const Channel* const channel = attach_channel(message_, set_.fd(), clock_.fd());
    ASSERT_NE(channel, nullptr);
    EXPECT_EQ(channel->map.size(), ring::kMinRingSize);
    EXPECT_EQ(channel->map.cpu_ring_count, set_.geometry().cpu_rings);
    EXPECT_LE(channel->map.thread_ring_count, set_.geometry().thread_rings);
}

TEST_F(AttachChannel, MemoryThatIsTooSmallIsRefused) {
    message_.cpu_ring_count += 1;
    EXPECT_EQ(attach_channel(message_, set_.fd(), clock_.fd()), nullptr);
}

// The same bytes lie in a file that somebody may truncate later.
UniqueFd unsealed_copy(int of) {
    UniqueFd copy(::memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    struct stat status {};
    EXPECT_EQ(::fstat(of, &status), 0);
    off_t offset = 0;
    EXPECT_EQ(::sendfile(copy.get(), of, &offset, ring::kPageSize), static_cast<ssize_t>(ring::kPageSize));
    EXPECT_EQ(::ftruncate(copy.get(), status.st_size), 0);
    return copy;
}

TEST_F(AttachChannel, ClockThatCanShrinkIsRefused) {
    EXPECT_EQ(attach_channel(message_, set_.fd(), unsealed_copy(clock_.fd()).get()), nullptr);
    EXPECT_NE(attach_channel(message_, set_.fd(), clock_.fd()), nullptr);
}

// Rings that outlive everything are in such files.
TEST_F(AttachChannel, RingsThatCanShrinkAreTakenFromRootAndOurselves) {
    const UniqueFd file = unsealed_copy(set_.fd());
    ASSERT_EQ(::fchmod(file.get(), 0600), 0);
    // Root may give it away; but root of a user namespace, only to users that are known there.
    if (::fchown(file.get(), 1234, 1234) == 0) {
        EXPECT_EQ(attach_channel(message_, file.get(), clock_.fd()), nullptr);
        ASSERT_EQ(::fchown(file.get(), 0, 0), 0);
    }
    UniqueFd shorter = unsealed_copy(set_.fd());
    ASSERT_EQ(::ftruncate(shorter.get(), ring::kPageSize), 0);
    EXPECT_EQ(attach_channel(message_, shorter.get(), clock_.fd()), nullptr);
    const Channel* const channel = attach_channel(message_, file.get(), clock_.fd());
    ASSERT_NE(channel, nullptr);
    EXPECT_TRUE(channel->is_populated);
}

// Its pages are there then: that is how a full disk shows, and not by SIGBUS at an event.
TEST_F(AttachChannel, RingInAFileIsPopulatedWhenItIsMapped) {
    const UniqueFd file = unsealed_copy(set_.fd());
    const Channel* const channel = attach_channel(message_, file.get(), clock_.fd());
    ASSERT_NE(channel, nullptr);
    const std::uint32_t ring = channel->map.cpu_ring_count;  // the first of threads
    EXPECT_EQ(channel->mapped[ring], nullptr);
    const auto blocks = [&file] {
        struct stat status {};
        EXPECT_EQ(::fstat(file.get(), &status), 0);
        return status.st_blocks;
    };
    const auto before = blocks();
    ASSERT_NE(map_ring(*channel, ring), nullptr);
    EXPECT_GE(blocks() - before, static_cast<blkcnt_t>(channel->map.size() / 512));
}

}  // namespace
}  // namespace leat::tracer
