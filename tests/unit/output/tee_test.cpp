#include "output/tee.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "support/patience.hpp"

namespace leat::output {
namespace {

constexpr consumer::StreamId kStream{.channel = 0, .ring = 3};
constexpr std::size_t kMaxBehind = 1'500;  // two packets of 400 bytes, and what else a copy takes

// Does what it is told to, and says what it was given.
class FakeDirectory final : public consumer::Output {
  public:
    bool is_full = false;
    std::vector<std::uint64_t> packets{};
    std::string metadata{};
    int chunks = 0;
    int clears = 0;

    Result<void> write_metadata(std::string_view unit) override {
        metadata += unit;
        return {};
    }
    Result<void> write_packet(const consumer::Packet& packet) override {
        if (is_full) return fail(ErrorKind::kDiskFull, "full");
        packets.push_back(packet.header.packet_seq_num);
        return {};
    }
    Result<std::string> begin_chunk() override {
        ++chunks;
        return std::string();
    }
    Result<void> clear() override {
        ++clears;
        return {};
    }
};

class FakeRelay final : public RemoteOutput {
  public:
    bool is_there = true;
    bool is_on_its_way = false;
    bool is_closing = false;
    bool is_answered = true;
    bool is_quick = false;  // stores all that it has at each look
    std::uint64_t stored_below = 0;
    std::uint64_t parts = 1;
    std::vector<std::string> calls{};
    std::vector<consumer::Packet> packets{};  // that it was given, and may still read

    Result<void> write_metadata(std::string_view unit) override {
        calls.push_back("metadata " + std::string(unit));
        return {};
    }
    Result<void> write_packet(const consumer::Packet& packet) override {
        calls.push_back(fmt::format("packet {}", packet.header.packet_seq_num));
        packets.push_back(packet);
        return {};
    }
    bool run() override {
        if (is_quick) store_all();
        return false;
    }
    void write_beacon(consumer::StreamId /*stream*/, std::uint64_t timestamp) override {
        calls.push_back(fmt::format("beacon {}", timestamp));
    }
    [[nodiscard]] std::uint64_t stored(consumer::StreamId /*stream*/) const override { return stored_below; }
    [[nodiscard]] std::uint64_t part() const override { return parts; }
    [[nodiscard]] std::size_t max_packet_size() const override { return 500; }
    [[nodiscard]] std::uint64_t taken() const override { return stored_below; }
    void begin_close() override {
        if (!std::exchange(is_closing, true)) calls.emplace_back("begin close");
    }
    void close() override { calls.emplace_back("close"); }
    Result<void> ask_for_clock_offset(std::uint64_t offset) override {
        calls.push_back(fmt::format("clock offset {}", offset));
        return {};
    }
    void store_all() {
        is_answered = true;
        if (!packets.empty()) stored_below = packets.back().header.packet_seq_num + 1;
    }
    [[nodiscard]] bool is_connected() const override { return is_there; }
    [[nodiscard]] bool is_connecting() const override { return is_on_its_way; }
    [[nodiscard]] std::uint64_t connections() const override { return parts; }
    [[nodiscard]] bool is_delivered() const override {
        return packets.empty() || stored_below > packets.back().header.packet_seq_num;
    }
    [[nodiscard]] bool is_settled() const override {
        return is_answered && (packets.empty() || stored_below > packets.back().header.packet_seq_num);
    }
    void forget_packets() override {
        calls.emplace_back("forget");
        packets.clear();
        is_there = false;
    }
    void ask_for_chunk() override {
        calls.emplace_back("chunk");
        is_answered = false;
    }
    Result<void> ask_for_clear() override {
        calls.emplace_back("clear");
        is_answered = false;
        return {};
    }
};

class TeeTest : public testing::Test {
  protected:
    TeeTest() {
        auto first = std::make_unique<FakeDirectory>();
        auto second = std::make_unique<FakeRelay>();
        directory_ = first.get();
        relay_ = second.get();
        tee_ = std::make_unique<Tee>(std::move(first), std::move(second), "relay r", kMaxBehind);
    }

    // Of 400 bytes, which change when it is written: a program goes on in its ring.
    Result<void> write(std::uint64_t number) {
        ring_.assign(400, std::byte{7});
        auto written = tee_->write_packet(
            {.stream = kStream, .header = {.packet_seq_num = number}, .records = ring_, .events = 2});
        ring_.assign(400, std::byte{9});
        return written;
    }
    void write_and_flush(std::uint64_t number) {
        ASSERT_TRUE(write(number));
        tee_->flush();
    }

    // The relay answers whatever it is asked, one turn at a time.
    void store_all_and_close() {
        for (int turns = 0; tee_->awaits_close() && turns < 10; ++turns) {
            relay_->store_all();
            tee_->run();
        }
        EXPECT_FALSE(tee_->awaits_close());
        tee_->close();
    }

    std::vector<std::byte> ring_;
    FakeDirectory* directory_;
    FakeRelay* relay_;
    std::unique_ptr<Tee> tee_;
};

using Calls = std::vector<std::string>;
using Numbers = std::vector<std::uint64_t>;

TEST_F(TeeTest, BothGetEverything) {
    ASSERT_TRUE(tee_->write_metadata("m"));
    write_and_flush(0);
    write_and_flush(1);
    EXPECT_EQ(directory_->metadata, "m");
    EXPECT_EQ(directory_->packets, (Numbers{0, 1}));
    EXPECT_EQ(relay_->calls, (Calls{"metadata m", "packet 0", "packet 1"}));
    EXPECT_EQ(tee_->max_packet_size(), 500U);
}

// Nothing that the relay stores keeps a number from being used again: see the next test.
TEST_F(TeeTest, TheDirectoryAloneSaysWhatIsStored) {
    write_and_flush(0);
    EXPECT_GT(tee_->stored(kStream), 0U);
}

TEST_F(TeeTest, TheRelayGetsAPacketAfterTheConsumerKnowsItIsStored) {
    ASSERT_TRUE(write(0));
    EXPECT_EQ(relay_->calls, Calls{});
    ASSERT_TRUE(write(1));
    EXPECT_EQ(relay_->calls, (Calls{"packet 0"}));
    tee_->write_beacon(kStream, 50);
    EXPECT_EQ(relay_->calls, (Calls{"packet 0", "packet 1", "beacon 50"}));
}

TEST_F(TeeTest, ThePacketThatTheDirectoryDoesNotTakeComesOnce) {
    directory_->is_full = true;
    EXPECT_FALSE(write(0));
    directory_->is_full = false;
    write_and_flush(0);
    EXPECT_EQ(relay_->calls, (Calls{"packet 0"}));
}

TEST_F(TeeTest, TheRelayReadsACopyUntilItHasStoredIt) {
    write_and_flush(0);
    write_and_flush(1);
    for (const consumer::Packet& packet : relay_->packets)
        EXPECT_EQ(std::vector(packet.records.begin(), packet.records.end()), std::vector(400, std::byte{7}));
    relay_->stored_below = 2;
    tee_->run();
    write_and_flush(2);
    write_and_flush(3);
    EXPECT_EQ(tee_->packets_missed(), 0U);
}

TEST_F(TeeTest, ASlowRelayIsLeftBehindAndGoesOnWithANewPart) {
    for (std::uint64_t number = 0; number < 5; ++number) {
        relay_->stored_below = 1;
        write_and_flush(number);
    }
    // Without the first one, which is stored.
    EXPECT_EQ(tee_->packets_missed(), 4U);
    EXPECT_EQ(relay_->calls, (Calls{"packet 0", "packet 1", "packet 2", "forget"}));
    tee_->write_beacon(kStream, 50);
    EXPECT_EQ(relay_->calls.back(), "forget");
    relay_->is_there = true;
    ++relay_->parts;
    EXPECT_TRUE(tee_->run());
    write_and_flush(5);
    EXPECT_EQ(relay_->calls.back(), "packet 5");
    EXPECT_EQ(directory_->packets, (Numbers{0, 1, 2, 3, 4, 5}));
    const auto warnings = tee_->take_warnings();
    ASSERT_EQ(warnings.size(), 2U);
    EXPECT_NE(warnings[1].find("misses 4 packets with 8 events"), std::string::npos) << warnings[1];
}

// Rings may hold more than the copies may.
TEST_F(TeeTest, AQuickRelayIsNotLeftBehindWithinADrain) {
    relay_->is_quick = true;
    for (std::uint64_t number = 0; number < 10; ++number) ASSERT_TRUE(write(number));
    EXPECT_EQ(tee_->packets_missed(), 0U);
    tee_->flush();
    EXPECT_EQ(relay_->packets.size(), 10U);
}

// Each time is a new part of the session.
TEST_F(TeeTest, ARelayThatIsLeftBehindAgainComesBackLater) {
    std::uint64_t number = 0;
    const auto leave_behind = [&] {
        const std::uint64_t missed = tee_->packets_missed();
        while (tee_->packets_missed() == missed) write_and_flush(number++);
        relay_->is_there = true;
        ++relay_->parts;
    };
    // A consumer begins a part when it is back, and only then.
    const auto comes_back = [&] {
        const bool is_new_part = tee_->run();
        const auto warnings = tee_->take_warnings();
        const bool is_back = std::ranges::any_of(
            warnings, [](const auto& one) { return one.find("is back, in a new part") != std::string::npos; });
        EXPECT_EQ(is_new_part, is_back);
        return is_back;
    };
    leave_behind();
    EXPECT_TRUE(comes_back());
    for (const std::chrono::seconds pause : {std::chrono::seconds(1), std::chrono::seconds(2)}) {
        const auto before = std::chrono::steady_clock::now();
        leave_behind();
        EXPECT_GE(tee_->deadline(), before + pause);
        EXPECT_TRUE(test::wait_until(comes_back));
    }
}

TEST_F(TeeTest, AChunkWaitsForWhatIsBeforeItAndHoldsBackWhatIsAfterIt) {
    write_and_flush(0);
    ASSERT_TRUE(tee_->begin_chunk());
    write_and_flush(1);
    EXPECT_EQ(directory_->chunks, 1);
    EXPECT_EQ(relay_->calls, (Calls{"packet 0"}));
    relay_->stored_below = 1;
    tee_->run();
    tee_->write_beacon(kStream, 50);
    EXPECT_EQ(relay_->calls, (Calls{"packet 0", "chunk"}));
    relay_->is_answered = true;
    tee_->run();
    EXPECT_EQ(relay_->calls, (Calls{"packet 0", "chunk", "packet 1"}));
}

// Packets of a few bytes, too.
TEST_F(TeeTest, CopiesTakeMoreThanTheirRecords) {
    for (std::uint64_t number = 0; number < kMaxBehind / 8; ++number) {
        const std::vector<std::byte> records(8);
        ASSERT_TRUE(tee_->write_packet(
            {.stream = kStream, .header = {.packet_seq_num = number}, .records = records, .events = 1}));
    }
    EXPECT_GT(tee_->packets_missed(), 0U);
}

// A relay may be asked to clear what it has, and later come back with a new part: then the one before stays.
class ClearedTeeTest : public TeeTest {
  protected:
    void come_back() {
        ++relay_->parts;
        relay_->is_there = true;
        relay_->is_answered = true;
        tee_->run();
    }
    void expect_warnings(std::ptrdiff_t count) {
        const auto warnings = tee_->take_warnings();
        const auto is_of_clear = [](const std::string& text) { return text.find("was not cleared") != text.npos; };
        EXPECT_EQ(std::ranges::count_if(warnings, is_of_clear), count) << fmt::format("{}", fmt::join(warnings, "\n"));
    }
};

TEST_F(ClearedTeeTest, RelayThatIsThereClearsAll) {
    tee_->run();
    write_and_flush(0);
    ASSERT_TRUE(tee_->clear());
    tee_->begin_close();
    store_all_and_close();
    EXPECT_EQ(relay_->calls, (Calls{"packet 0", "clear", "begin close", "forget", "close"}));
    expect_warnings(0);
}

TEST_F(ClearedTeeTest, RelayThatComesForTheFirstTimeHasNothingToClear) {
    relay_->parts = 0;
    relay_->is_there = false;
    relay_->is_answered = false;
    ASSERT_TRUE(tee_->clear());
    come_back();
    relay_->is_answered = true;
    tee_->run();
    EXPECT_EQ(relay_->calls, (Calls{"clear"}));
    expect_warnings(0);
}

TEST_F(ClearedTeeTest, RelayThatWasAwayKeepsItsPartBefore) {
    relay_->is_answered = false;
    ASSERT_TRUE(tee_->clear());
    come_back();
    EXPECT_EQ(relay_->calls, (Calls{"clear"}));
    relay_->is_answered = true;
    tee_->run();
    expect_warnings(1);
    tee_->run();
    expect_warnings(0);
}

TEST_F(ClearedTeeTest, RelayThatWasAwayBeforeKeepsThatPartAndIsToldOfOnce) {
    tee_->run();
    come_back();
    for (const std::ptrdiff_t told : {1, 0}) {
        ASSERT_TRUE(tee_->clear());
        tee_->run();
        relay_->is_answered = true;
        tee_->run();
        expect_warnings(told);
    }
}

TEST_F(ClearedTeeTest, RelayKeepsWhatADaemonBeforeHasSentIt) {
    relay_->parts = 0;
    ASSERT_TRUE(tee_->restore_metadata("m"));
    ASSERT_TRUE(tee_->clear());
    tee_->run();
    come_back();
    expect_warnings(1);
}

TEST_F(ClearedTeeTest, RelayThatBreaksOffMeanwhileMayKeepWhatItHas) {
    ASSERT_TRUE(tee_->clear());
    tee_->run();
    EXPECT_EQ(relay_->calls, (Calls{"clear"}));
    come_back();
    expect_warnings(1);
}

TEST_F(ClearedTeeTest, RelayThatIsLeftBehindOrGivenUpWasNotCleared) {
    write_and_flush(0);
    ASSERT_TRUE(tee_->clear());
    for (std::uint64_t number = 1; tee_->packets_missed() == 0; ++number) write_and_flush(number);
    expect_warnings(1);
    ASSERT_TRUE(tee_->clear());
    expect_warnings(1);
    come_back();
    relay_->is_answered = false;
    ASSERT_TRUE(tee_->clear());
    tee_->close();
    expect_warnings(1);
}

TEST_F(TeeTest, TheEndWaitsForTheRelay) {
    tee_->run();
    write_and_flush(0);
    ASSERT_TRUE(tee_->clear());
    write_and_flush(1);
    tee_->begin_close();
    store_all_and_close();
    EXPECT_EQ(directory_->clears, 1);
    EXPECT_EQ(relay_->calls, (Calls{"packet 0", "clear", "packet 1", "begin close", "forget", "close"}));
    EXPECT_EQ(tee_->packets_missed(), 0U);
    EXPECT_TRUE(tee_->take_warnings().empty());
}

TEST_F(TeeTest, TheEndOfAShortSessionWaitsForTheRelayToConnect) {
    relay_->is_there = false;
    relay_->is_on_its_way = true;
    write_and_flush(0);
    tee_->begin_close();
    tee_->run();
    EXPECT_TRUE(tee_->awaits_close());
    relay_->is_there = true;
    relay_->is_on_its_way = false;
    tee_->run();
    EXPECT_TRUE(tee_->awaits_close());
    store_all_and_close();
    EXPECT_EQ(relay_->calls, (Calls{"packet 0", "begin close", "forget", "close"}));
    EXPECT_EQ(tee_->packets_missed(), 0U);
}

TEST_F(TeeTest, TheEndOfAShortSessionDoesNotWaitForARelayThatFails) {
    relay_->is_there = false;
    relay_->is_on_its_way = true;
    write_and_flush(0);
    tee_->begin_close();
    relay_->is_on_its_way = false;
    tee_->run();
    EXPECT_FALSE(tee_->awaits_close());
}

TEST_F(TeeTest, TheEndIsAwaitedWithoutWaiting) {
    tee_->run();
    write_and_flush(0);
    tee_->begin_close();
    EXPECT_TRUE(tee_->awaits_close());
    EXPECT_EQ(relay_->calls, (Calls{"packet 0"}));
    relay_->stored_below = 1;
    tee_->run();
    EXPECT_FALSE(tee_->awaits_close());
    EXPECT_EQ(relay_->calls, (Calls{"packet 0", "begin close"}));
}

TEST_F(TeeTest, WhatIsGivenUpIsMissed) {
    tee_->run();
    write_and_flush(0);
    tee_->begin_close();
    EXPECT_TRUE(tee_->awaits_close());
    tee_->close();
    EXPECT_EQ(tee_->packets_missed(), 1U);
    EXPECT_EQ(tee_->take_warnings().size(), 1U);
}

TEST_F(TeeTest, WhatTheRelayTakesIsWhatGoesForward) {
    const std::uint64_t before = tee_->taken();
    write_and_flush(0);
    EXPECT_EQ(tee_->taken(), before) << "the directory does not count";
    relay_->stored_below = 1;
    EXPECT_GT(tee_->taken(), before);
}

TEST_F(TeeTest, TheEndDoesNotWaitForARelayThatWasNeverThere) {
    relay_->is_there = false;
    tee_->run();
    write_and_flush(0);
    ASSERT_TRUE(tee_->begin_chunk());
    write_and_flush(1);
    EXPECT_TRUE(tee_->check_delivered());
    tee_->begin_close();
    EXPECT_FALSE(tee_->awaits_close());
    tee_->close();
    EXPECT_EQ(tee_->packets_missed(), 2U);
    EXPECT_EQ(tee_->take_warnings().size(), 1U);
}

}  // namespace
}  // namespace leat::output
