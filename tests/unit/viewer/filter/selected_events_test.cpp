#include "viewer/filter/selected_events.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "support/scratch_directory.hpp"
#include "support/written_stream.hpp"

namespace leat::viewer {
namespace {

class SelectedEventsTest : public testing::Test {
  protected:
    SelectedEventsTest() { std::ofstream(directory_.path() / "metadata") << test::kWrittenMetadata; }

    // The times of the events up to this one, and the error, if any.
    [[nodiscard]] std::string told_until(std::int64_t end_ns) const {
        const auto traces = open_traces({directory_.path()});
        if (!traces) return traces.error().message;
        auto events = SelectedEvents::make(*traces, {.range = TimeRange::of(INT64_MIN, end_ns)}).value();
        std::string text;
        const auto told = events.for_each(
            [&](std::span<const FoundEvent> found) -> Result<bool> {
                for (const FoundEvent& event : found) text += fmt::format("{} ", event.place->time_ns);
                return true;
            },
            [](const Message&) { return Result<void>(); });
        return text + (told ? "" : told.error().message);
    }

    test::ScratchDirectory directory_;
};

// Also if it is wrong: in the first stream time goes back.
TEST_F(SelectedEventsTest, WhatLiesBehindTheRangeIsNotReached) {
    test::WrittenStream first(0);
    first.add_packet({10, 20, 30, 80, 50});
    first.write(directory_.path());
    test::WrittenStream second(1);
    second.add_packet({15, 25, 45, 90});
    second.write(directory_.path());
    EXPECT_EQ(told_until(42), "10 15 20 25 30 ");
    EXPECT_EQ(told_until(79), "10 15 20 25 30 45 ");
    EXPECT_NE(told_until(80).find("10 15 20 25 30 45 80 "), std::string::npos);
    EXPECT_NE(told_until(80).find("time goes back by 30 ns"), std::string::npos);
}

}  // namespace
}  // namespace leat::viewer
