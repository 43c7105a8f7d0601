#include "wire/app/sticky_reader.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <string>

#include "base/unique_fd.hpp"

namespace leat::wire {
namespace {

// Control memory of three tracepoints, of which a test writes the slots.
class StickyReader : public testing::Test {
  protected:
    static constexpr ControlLayout kLayout{
        .tracepoint_count = 3, .descriptions_size = 64, .sticky_slots = kStickySlots};

    StickyReader() { EXPECT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(kLayout.size())), 0); }

    void put(std::uint64_t index, const StickySlot& slot) {
        ASSERT_EQ(::pwrite(fd_.get(), &slot, sizeof slot, static_cast<off_t>(kLayout.sticky(index))),
                  static_cast<ssize_t>(sizeof slot));
    }
    static StickySlot slot(std::uint32_t tracepoint, std::uint32_t order, const std::string& payload) {
        StickySlot made{};
        made.sequence = 2;
        made.tracepoint = tracepoint;
        made.order = order;
        made.size = static_cast<std::uint32_t>(payload.size());
        std::memcpy(made.payload, payload.data(), payload.size());
        return made;
    }
    [[nodiscard]] StickyValues read() const {
        auto values = read_sticky_values(fd_.get(), kLayout);
        EXPECT_TRUE(values);
        return values ? *std::move(values) : StickyValues{};
    }

    UniqueFd fd_{::memfd_create("sticky", MFD_CLOEXEC)};
};

TEST_F(StickyReader, NothingIsThere) {
    EXPECT_TRUE(read().values.empty());
    EXPECT_EQ(read().unreadable, 0U);
}

TEST_F(StickyReader, ValuesComeInTheOrderInWhichTheyWereSet) {
    put(0, slot(2, 9, "second"));
    put(7, slot(1, 3, "first"));
    const StickyValues found = read();
    ASSERT_EQ(found.values.size(), 2U);
    EXPECT_EQ(found.values[0].tracepoint, 1U);
    EXPECT_EQ(found.values[0].payload.size(), 5U);
    EXPECT_EQ(std::memcmp(found.values[0].payload.data(), "first", 5), 0);
    EXPECT_EQ(found.values[1].order, 9U);
}

TEST_F(StickyReader, ValueThatWasTakenAwayIsNone) {
    put(0, slot(kNoTracepoint, 1, "gone"));
    EXPECT_TRUE(read().values.empty());
    EXPECT_EQ(read().unreadable, 0U);
}

TEST_F(StickyReader, SlotThatIsAlwaysBeingWrittenIsGivenUp) {
    StickySlot half = slot(1, 1, "half");
    half.sequence = 3;
    put(0, half);
    EXPECT_TRUE(read().values.empty());
    EXPECT_EQ(read().unreadable, 1U);
}

TEST_F(StickyReader, WhatMakesNoSenseIsCounted) {
    put(0, slot(3, 1, "of no tracepoint"));
    StickySlot large = slot(1, 2, "");
    large.size = kStickyPayload + 1;
    put(1, large);
    put(2, slot(0, 3, "good"));
    EXPECT_EQ(read().values.size(), 1U);
    EXPECT_EQ(read().unreadable, 2U);
}

TEST_F(StickyReader, FileThatWasShortenedIsAnError) {
    ASSERT_EQ(::ftruncate(fd_.get(), 5000), 0);
    EXPECT_FALSE(read_sticky_values(fd_.get(), kLayout));
}

TEST_F(StickyReader, CountOfWhatWasNotKeptIsTold) {
    const std::uint64_t count = 12;
    ASSERT_EQ(::pwrite(fd_.get(), &count, sizeof count, offsetof(ControlFileHeader, not_kept)), 8);
    EXPECT_EQ(read().not_kept, 12U);
}

}  // namespace
}  // namespace leat::wire
