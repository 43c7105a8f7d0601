#include "viewer/merge/live_merge.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/byte_metadata.hpp"

namespace leat::viewer {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

class LiveMergeTest : public testing::Test {
  protected:
    LiveMergeTest() { EXPECT_TRUE(trace_.append_metadata(std::as_bytes(std::span(test::kByteMetadata)))); }

    std::shared_ptr<LiveStream> add() {
        auto stream = std::make_shared<LiveStream>(StreamIdentity{});
        merge_.add(stream);
        return stream;
    }

    // Feeds a packet with events at these seconds.
    Result<void> feed(LiveStream& stream, char begin, char end, const std::string& times) {
        const std::string text = std::string{1, static_cast<char>((4 + times.size()) * 8), begin, end} + times;
        const auto bytes = std::as_bytes(std::span(text));
        return stream.feed(trace_.model().value(), {bytes.begin(), bytes.end()}, 0);
    }

    // The seconds of the events that may be told now.
    std::string told() {
        merge_.refresh();
        std::string text;
        while (merge_.next().value_or(false))
            if (merge_.message().kind == Message::Kind::kEvent)
                text += fmt::format("{} ", *merge_.message().time_ns / kSecond);
        return text;
    }

    LiveTrace trace_{0};
    LiveMerge merge_;
};

TEST_F(LiveMergeTest, StreamWithoutAMessageHoldsTheOthersBack) {
    const auto a = add();
    const auto b = add();
    ASSERT_TRUE(feed(*a, 1, 9, "\2\4\6"));
    EXPECT_EQ(told(), "");
    ASSERT_TRUE(feed(*b, 1, 5, "\3"));
    EXPECT_EQ(told(), "2 3 4 ");
}

TEST_F(LiveMergeTest, QuietStreamHoldsNobodyBackUpToItsHorizon) {
    const auto a = add();
    const auto b = add();
    ASSERT_TRUE(feed(*a, 1, 9, "\2\4\6"));
    b->quiet_until(4 * kSecond);
    EXPECT_EQ(told(), "2 4 ");
    b->quiet_until(3 * kSecond);  // an old beacon changes nothing
    EXPECT_EQ(told(), "");
    b->quiet_until(20 * kSecond);
    EXPECT_EQ(told(), "6 ");
}

TEST_F(LiveMergeTest, EndedStreamHoldsNobodyBack) {
    const auto a = add();
    const auto b = add();
    ASSERT_TRUE(feed(*a, 1, 9, "\2"));
    b->end();
    EXPECT_EQ(told(), "2 ");
    a->end();
    EXPECT_EQ(told(), "");
    EXPECT_TRUE(merge_.is_empty());
}

TEST_F(LiveMergeTest, LateStreamIsToldAndCounted) {
    const auto a = add();
    ASSERT_TRUE(feed(*a, 1, 9, "\5"));
    EXPECT_EQ(told(), "5 ");
    const auto b = add();
    ASSERT_TRUE(feed(*b, 2, 4, "\3"));
    EXPECT_EQ(told(), "3 ");
    EXPECT_GT(merge_.late_events(), 0U);
}

TEST_F(LiveMergeTest, DamagedPacketEndsItsStreamOnly) {
    const auto a = add();
    const auto b = add();
    ASSERT_TRUE(feed(*b, 1, 9, "\2"));
    EXPECT_FALSE(a->feed(trace_.model().value(), std::vector<std::byte>(2), 0));
    EXPECT_EQ(told(), "2 ");
    EXPECT_FALSE(a->is_hungry());
}

}  // namespace
}  // namespace leat::viewer
