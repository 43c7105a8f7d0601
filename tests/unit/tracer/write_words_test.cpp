// An event that comes in a register: the same bytes, and the same counts, as one that was staged.
#include <gtest/gtest.h>
#include <leat/abi.h>

#include <cstring>
#include <string>

#include "support/attached_tracer.hpp"
#include "support/unstaged_payloads.hpp"

namespace leat::tracer {
namespace {

using ring::DiscardReason;
using test::AttachedTracer;
using test::OtherChannel;
using test::Writer;

class WriteWords : public test::UnstagedPayloads, public testing::WithParamInterface<Writer> {
  protected:
    WriteWords() : UnstagedPayloads(GetParam()) {}
    void emit(const std::string& payload) override {
        leat_words words{};
        std::memcpy(&words, payload.data(), payload.size());
        leat_write_words(&tracer_.tracepoint(), nullptr, words, payload.size());
    }
};

INSTANTIATE_TEST_SUITE_P(Both, WriteWords, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

TEST_P(WriteWords, OfAnySize) {
    for (std::string payload = "sixteen bytes..!"; !payload.empty(); payload.pop_back())
        ASSERT_EQ(written(payload), payload);
    EXPECT_EQ(written(""), "");
    EXPECT_EQ(tracer_.discarded(), 0U);
}

TEST_P(WriteWords, FullRingCountsWhatFindsNoRoom) {
    constexpr std::uint64_t kEvents = 20'000;
    for (std::uint64_t i = 1; i < kEvents; ++i) emit(std::string(i % 17, 'x'));
    EXPECT_LT(tracer_.records(), kEvents);
    EXPECT_EQ(tracer_.records() + tracer_.discarded(DiscardReason::kRingFull), kEvents);
    EXPECT_EQ(tracer_.discarded(), tracer_.discarded(DiscardReason::kRingFull));
}

TEST_P(WriteWords, WishToBeWokenIsHeard) {
    const std::uint32_t bells = tracer_.bells();
    ring_->limit = ring_->head;
    EXPECT_EQ(written("two words"), "two words");
    EXPECT_EQ(tracer_.bells(), bells + 1);
}

TEST_P(WriteWords, SwitchedOffIsNotWritten) {
    tracer_.switch_to({});
    EXPECT_EQ(written("two words"), "nothing");
    EXPECT_EQ(tracer_.discarded(), 0U);
}

TEST_P(WriteWords, EachChannelGetsItsRecord) {
    const OtherChannel other(0);
    if (GetParam() == Writer::kOfThread) other.channel().has_rseq = false;
    tracer_.switch_to({{.event_id = 1, .channel = tracer_.channel().number},  //
                       {.event_id = 2, .channel = other.channel().number}});
    for (int i = 0; i < 10; ++i) ASSERT_EQ(written("two words"), "two words");
    EXPECT_EQ(other.records(), 10U);
    EXPECT_EQ(tracer_.records(), 11U);
}

}  // namespace
}  // namespace leat::tracer
