#include "host/flight_recorder.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <array>
#include <fstream>
#include <iterator>
#include <memory>

#include "support/file_size_limit.hpp"
#include "support/scratch_directory.hpp"

namespace leat::host {
namespace {

namespace fs = std::filesystem;

class FlightRecorderTest : public testing::Test {
  protected:
    Result<StoredSnapshot> take() { return flight_recorder_.take(std::array{recording_.get()}, {}); }
    Result<StoredSnapshot> take_on_a_full_disk() {
        const test::FileSizeLimit full(0);
        return take();
    }
    Result<StoredSnapshot> take_last_on_a_full_disk() {
        const test::FileSizeLimit full(0);
        return flight_recorder_.take_last(*recording_, {});
    }
    // Whatever their names begin with.
    [[nodiscard]] std::ptrdiff_t directories() const {
        return std::distance(fs::directory_iterator(directory_), fs::directory_iterator());
    }

    static std::unique_ptr<session::Trace> make_trace(const std::string& path = {}) {
        const session::Channel channel{.name = "channel", .ring_size = ring::kMinRingSize, .overwrites = true};
        return *session::Trace::create({.session_name = "test", .key = {}, .path = path}, std::vector{channel});
    }
    test::ScratchDirectory scratch_;
    fs::path directory_ = scratch_.path() / "snapshots";
    std::unique_ptr<session::Trace> trace_ = make_trace();
    std::unique_ptr<Recording> recording_ = *Recording::create_for_snapshots(*trace_, {});
    FlightRecorder flight_recorder_{{.directory = directory_}, "test"};
};

TEST_F(FlightRecorderTest, WishIsMetByASnapshot) {
    flight_recorder_.ask();
    EXPECT_TRUE(flight_recorder_.is_due());
    ASSERT_TRUE(take());
    EXPECT_FALSE(flight_recorder_.is_wanted());
    EXPECT_FALSE(flight_recorder_.is_failing());
}

TEST_F(FlightRecorderTest, WishOutlivesASnapshotThatFails) {
    flight_recorder_.ask();
    for (int turn = 0; turn < 6; ++turn) EXPECT_FALSE(take_on_a_full_disk());
    EXPECT_TRUE(flight_recorder_.is_wanted());
    EXPECT_TRUE(flight_recorder_.is_failing());
    EXPECT_FALSE(flight_recorder_.is_due());  // after a pause, of a minute by now
    ASSERT_TRUE(take());
    EXPECT_FALSE(flight_recorder_.is_wanted());
    EXPECT_FALSE(flight_recorder_.is_failing());
}

TEST_F(FlightRecorderTest, WishOutlivesADirectoryThatCannotBeMade) {
    std::ofstream(directory_).close();
    flight_recorder_.ask();
    EXPECT_FALSE(take());
    EXPECT_TRUE(flight_recorder_.is_wanted());
    fs::remove(directory_);
    EXPECT_TRUE(take());
    EXPECT_FALSE(flight_recorder_.is_wanted());
}

TEST_F(FlightRecorderTest, SnapshotThatNobodyWantedAndThatFailsIsNotTriedAgain) {
    EXPECT_FALSE(take_on_a_full_disk());
    EXPECT_FALSE(flight_recorder_.is_wanted());
}

TEST_F(FlightRecorderTest, TriesThatStoreNothingLeaveNothing) {
    flight_recorder_.ask();
    for (int turn = 0; turn < 3; ++turn) EXPECT_FALSE(take_on_a_full_disk());
    EXPECT_EQ(directories(), 0);
    ASSERT_TRUE(take());
    EXPECT_EQ(directories(), 1);
}

TEST_F(FlightRecorderTest, ProcessThatEndsOnAFullDiskLeavesTheWishToTheOneOfAll) {
    flight_recorder_.ask();
    EXPECT_FALSE(take_last_on_a_full_disk());
    EXPECT_TRUE(flight_recorder_.is_failing());
    EXPECT_TRUE(flight_recorder_.is_wanted());
    EXPECT_FALSE(flight_recorder_.is_met_in_part());
    ASSERT_TRUE(take());
    EXPECT_FALSE(flight_recorder_.is_wanted());
}

// Its user has put something where it is to be.
TEST_F(FlightRecorderTest, TraceThatHasNoPlaceKeepsNoOtherFromOne) {
    const auto in_the_same_place = make_trace();
    const auto elsewhere = make_trace("elsewhere");
    const auto second = *Recording::create_for_snapshots(*in_the_same_place, {});
    const auto third = *Recording::create_for_snapshots(*elsewhere, {});
    EXPECT_FALSE(flight_recorder_.take(std::array{recording_.get(), second.get(), third.get()}, {}));
    std::size_t traces = 0;
    for (const auto& entry : fs::recursive_directory_iterator(directory_))
        if (entry.path().filename() == "metadata") ++traces;
    EXPECT_EQ(traces, 2U);
}

// By a daemon that was killed. Everything else is somebody's.
TEST_F(FlightRecorderTest, WhatAnotherHasNotFinishedIsRemoved) {
    for (const char* const name :
         {".snapshot-1-20260102-030405-6.part", ".my-own-20260102-030405-16.part", "snapshot-1-20260102-030405-5",
          ".snapshot-1-20260102-030405-6", ".snapshot-1-030405-6.part", ".-20260102-030405-6.part", ".notes.part",
          ".part", "snapshot-1-20260102-030405-6.part"}) {
        fs::create_directories(directory_ / name);
        std::ofstream(directory_ / name / "metadata").close();
    }
    flight_recorder_.go_on_after_another();
    EXPECT_FALSE(fs::exists(directory_ / ".snapshot-1-20260102-030405-6.part"));
    EXPECT_FALSE(fs::exists(directory_ / ".my-own-20260102-030405-16.part"));
    EXPECT_EQ(directories(), 7);
}

// They may come later: nothing could be opened yet.
TEST_F(FlightRecorderTest, WishWithoutTracesStays) {
    flight_recorder_.ask();
    EXPECT_FALSE(flight_recorder_.take({}, {}));
    EXPECT_TRUE(flight_recorder_.is_wanted());
    EXPECT_FALSE(flight_recorder_.is_due());
    EXPECT_TRUE(take());
    EXPECT_FALSE(flight_recorder_.is_wanted());
}

}  // namespace
}  // namespace leat::host
