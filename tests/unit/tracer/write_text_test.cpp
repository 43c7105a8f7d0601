// An event whose text goes straight to where it is recorded: the same bytes, and the same counts, as one that was
// staged.
#include <gtest/gtest.h>
#include <leat/abi.h>

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "support/attached_tracer.hpp"
#include "support/unstaged_payloads.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using test::AttachedTracer;
using test::OtherChannel;
using test::Writer;

const std::string kHead = "head";
const std::string kTail = "the tail of it";

// Where what is around the text comes from
enum class Place : std::uint8_t { kMemory, kRegisters };
using Way = std::tuple<Writer, Place>;

class WriteText : public test::UnstagedPayloads, public testing::WithParamInterface<Way> {
  protected:
    WriteText() : UnstagedPayloads(std::get<Writer>(GetParam())) {}

    void emit(const std::string& text) override {
#if defined(LEAT_HAS_WORDS)
        if (std::get<Place>(GetParam()) == Place::kRegisters) {
            leat_words head{};
            leat_words tail{};
            std::memcpy(&head, kHead.data(), kHead.size());
            std::memcpy(&tail, kTail.data(), kTail.size());
            leat_write_text_words(&tracer_.tracepoint(), nullptr, text.c_str(), kHead.size(),
                                  kHead.size() + 1 + kTail.size(), head, tail);
            return;
        }
#endif
        const std::string slack(LEAT_STAGE_SLACK, '~');
        const std::string head = kHead + slack;
        const std::string tail = kTail + slack;
        const leat_text_payload payload{text.c_str(), head.data(), kHead.size(), tail.data(), kTail.size()};
        leat_write_text(&tracer_.tracepoint(), nullptr, &payload);
    }
    static std::string record_of(const std::string& text) { return kHead + text + '\0' + kTail; }
};

std::string name_of_way(const testing::TestParamInfo<Way>& way) {
    const auto [writer, place] = way.param;
    return std::string(writer == Writer::kOfCpu ? "CpuRing" : "ThreadRing") +
           (place == Place::kMemory ? "" : "Registers");
}
INSTANTIATE_TEST_SUITE_P(Ways, WriteText,
                         testing::Combine(testing::Values(Writer::kOfCpu, Writer::kOfThread),
                                          testing::Values(Place::kMemory, Place::kRegisters)),
                         name_of_way);

// Beyond a small stage, beyond what the sequence takes, and the largest that a ring takes.
TEST_P(WriteText, TextOfAnyLength) {
    const std::uint64_t largest = ring::max_record_size(AttachedTracer::kRingSize) - record_of("").size();
    for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{493}, std::uint64_t{494},
                                       std::uint64_t{1'000}, ring::kMaxText, ring::kMaxText + 1, largest}) {
        empty_ring();
        const std::string text(length, 'x');
        ASSERT_EQ(written(text), record_of(text)) << length;
    }
    EXPECT_EQ(tracer_.discarded(), 0U);
    empty_ring();
    emit(std::string(largest + 1, 'x'));
    emit(std::string(ring::kMaxRecordSize, 'x'));
    EXPECT_EQ(tracer_.discarded(DiscardReason::kTooLarge), 2U);
    EXPECT_EQ(tracer_.discarded(), 2U);
}

TEST_P(WriteText, LongOneWithoutABufferIsCounted) {
    std::vector<void*> staged;
    while (void* const buffer = leat_stage_large(&tracer_.tracepoint(), 1'000)) staged.push_back(buffer);
    const std::uint64_t counted = tracer_.discarded();
    emit(std::string(ring::kMaxText + 1, 'x'));
    EXPECT_EQ(tracer_.discarded(DiscardReason::kInterrupted), counted + 1);
    for (void* const buffer : staged) leat_write_large(&tracer_.tracepoint(), nullptr, 0, buffer, 1'000);
    // It has not kept a buffer either.
    for (std::size_t i = 0; i <= staged.size(); ++i) {
        empty_ring();
        emit(std::string(ring::kMaxText + 1, 'x'));
    }
    EXPECT_EQ(tracer_.discarded(), counted + 1);
}

TEST_P(WriteText, FullRingCountsWhatFindsNoRoom) {
    constexpr std::uint64_t kEvents = 5'000;
    for (std::uint64_t i = 1; i < kEvents; ++i) emit(std::string(i % 60, 'x'));
    EXPECT_LT(tracer_.records(), kEvents);
    EXPECT_EQ(tracer_.records() + tracer_.discarded(DiscardReason::kRingFull), kEvents);
    EXPECT_EQ(tracer_.discarded(), tracer_.discarded(DiscardReason::kRingFull));
    EXPECT_LE(ring_->head, ring_->tail + AttachedTracer::kRingSize);
    EXPECT_GT(ring_->head, ring_->tail + AttachedTracer::kRingSize - 150);
}

// Where only a shorter one has room.
TEST_P(WriteText, LastRoomGoesToWhoFitsIn) {
    empty_ring();
    const std::string text(40, 'x');
    ring_->tail = ring_->head + ring::kCompactHeader.short_size + record_of(text).size() + ring::kCopySlack -
                  AttachedTracer::kRingSize;
    ring_->limit = ring_->tail + AttachedTracer::kRingSize;
    EXPECT_EQ(written(text + "x"), "nothing");
    EXPECT_EQ(tracer_.discarded(DiscardReason::kRingFull), 1U);
    EXPECT_EQ(written(text), record_of(text));
}

TEST_P(WriteText, WishToBeWokenIsHeard) {
    const std::uint32_t bells = tracer_.bells();
    ring_->limit = ring_->head;
    EXPECT_EQ(written("text"), record_of("text"));
    EXPECT_EQ(tracer_.bells(), bells + 1);
}

TEST_P(WriteText, SwitchedOffIsNotWritten) {
    tracer_.switch_to({});
    EXPECT_EQ(written("text"), "nothing");
    EXPECT_EQ(tracer_.discarded(), 0U);
}

TEST_P(WriteText, EachChannelGetsItsRecord) {
    const OtherChannel other(0);
    if (writer_ == Writer::kOfThread) other.channel().has_rseq = false;
    tracer_.switch_to({{.event_id = 1, .channel = tracer_.channel().number},  //
                       {.event_id = 2, .channel = other.channel().number}});
    for (int i = 0; i < 10; ++i) ASSERT_EQ(written("text"), record_of("text"));
    EXPECT_EQ(other.records(), 10U);
    EXPECT_EQ(tracer_.records(), 11U);
}

}  // namespace
}  // namespace leat::tracer
