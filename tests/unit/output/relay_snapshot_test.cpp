#include "output/relay_snapshot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/fake_relay.hpp"

namespace leat::output {
namespace {

using test::FakeRelay;
using wire::RelayCommand;

const std::string kMetadata = "/* CTF 1.8 */ trace { };\n";
constexpr std::uint64_t kSessionStart = 1'700'000'000;

SessionDescription session() {
    return {.name = "name",
            .hostname = "host",
            .trace_path = "ust/uid/7/64-bit",
            .channels = {{"channel0"}},
            .trace_uuid = {9},
            .snapshot = SnapshotDescription{.name = "snapshot-1-20261123-120000-4", .sender = {3}, .number = 4}};
}

Result<std::unique_ptr<RelaySnapshot>> connect_to(const FakeRelay& relay) {
    return RelaySnapshot::connect({"127.0.0.1", relay.control_port(), relay.data_port()}, session(), kSessionStart);
}

const wire::Bytes& records() {
    static const wire::Bytes bytes(300'000, std::byte{7});
    return bytes;
}

// Numbers of snapshots go on where the one before ended.
consumer::Packet packet(std::uint32_t ring, std::uint64_t number, std::size_t size) {
    const std::uint64_t bits = (ctf::kPacketHeaderSize + size) * 8;
    return {.stream = {.channel = 0, .ring = ring},
            .header = {.stream_instance_id = ring, .content_size = bits, .packet_size = bits, .packet_seq_num = number},
            .records = UntrustedBytes(records()).first(size),
            .events = 2};
}

// Whether all was stored.
bool deliver(RelaySnapshot& snapshot) {
    while (!snapshot.is_delivered() && !snapshot.is_broken()) snapshot.flush();
    return snapshot.is_delivered();
}

Result<std::string> send_all(RelaySnapshot& snapshot) {
    LEAT_TRY(snapshot.write_metadata(kMetadata));
    LEAT_TRY(snapshot.write_packet(packet(0, 5, records().size())));
    LEAT_TRY(snapshot.write_packet(packet(0, 7, 10)));
    if (deliver(snapshot)) LEAT_TRY(snapshot.write_packet(packet(1, 0, 0)));
    (void)deliver(snapshot);
    return snapshot.complete();
}

std::vector<RelayCommand> commands(FakeRelay& relay) {
    std::vector<RelayCommand> commands;
    for (const FakeRelay::Request& request : relay.requests())
        if (request.command != RelayCommand::kDataPending) commands.push_back(request.command);
    return commands;
}

bool has_metadata(FakeRelay& relay) { return std::ranges::count(commands(relay), RelayCommand::kSendMetadata) != 0; }

TEST(RelaySnapshot, MetadataComesLastAndNothingIsIndexed) {
    FakeRelay relay;
    const auto snapshot = *connect_to(relay);
    const auto path = send_all(*snapshot);
    ASSERT_TRUE(path) << path.error().message;
    EXPECT_EQ(commands(relay),
              (std::vector{RelayCommand::kVersion, RelayCommand::kGetConfiguration, RelayCommand::kCreateSession,
                           RelayCommand::kCreateTraceChunk, RelayCommand::kAddStream, RelayCommand::kAddStream,
                           RelayCommand::kAddStream, RelayCommand::kSendMetadata, RelayCommand::kQuiescentControl,
                           RelayCommand::kCloseStream, RelayCommand::kCloseStream, RelayCommand::kCloseStream,
                           RelayCommand::kCloseTraceChunk}));
    std::vector<std::uint64_t> numbers;
    for (const FakeRelay::Data& data : relay.data()) numbers.push_back(data.header.net_seq_num);
    EXPECT_EQ(numbers, (std::vector<std::uint64_t>{5, 7, 0}));
}

TEST(RelaySnapshot, SaysWhichSnapshotOfWhichSession) {
    FakeRelay relay;
    const auto snapshot = *connect_to(relay);
    ASSERT_TRUE(send_all(*snapshot));
    for (const FakeRelay::Request& request : relay.requests()) {
        if (request.command == RelayCommand::kCreateSession) {
            const auto message = *wire::parse<wire::CreateSession>(request.payload);
            EXPECT_TRUE(message.is_snapshot);
            EXPECT_EQ(message.live_timer_us, 0U);
            EXPECT_EQ(message.creation_time, kSessionStart);
            EXPECT_EQ(message.sessiond_uuid[0], 3);
        }
        if (request.command == RelayCommand::kCreateTraceChunk) {
            const auto message = *wire::parse<wire::CreateTraceChunk>(request.payload);
            EXPECT_EQ(message.override_name, "snapshot-1-20261123-120000-4");
            EXPECT_EQ(message.chunk_id, 4U);
        }
    }
}

TEST(RelaySnapshot, WithoutEventsItIsATraceToo) {
    FakeRelay relay;
    const auto snapshot = *connect_to(relay);
    ASSERT_TRUE(snapshot->write_metadata(kMetadata));
    EXPECT_TRUE(snapshot->complete());
    EXPECT_TRUE(has_metadata(relay));
}

TEST(RelaySnapshot, CutAnywhereItIsNotCompleteAndHasNoMetadataBeforeItsData) {
    constexpr std::size_t kAtLeast = 15;  // requests of a whole one
    for (std::size_t cut_at = 0; cut_at < kAtLeast; ++cut_at) {
        SCOPED_TRACE(cut_at);
        FakeRelay relay({.cut_at = cut_at});
        const auto snapshot = connect_to(relay);
        if (!snapshot) {
            EXPECT_NE(snapshot.error().message.find("cannot reach relay"), std::string::npos);
            continue;
        }
        const auto path = send_all(**snapshot);
        ASSERT_FALSE(path);
        EXPECT_NE(path.error().message.find("is not stored there"), std::string::npos) << path.error().message;
        EXPECT_FALSE(has_metadata(relay) && relay.data().size() != 3);
    }
}

TEST(RelaySnapshot, CutDuringItsDataItHasNoMetadata) {
    for (const std::size_t after : {400U, 2'000U, 100'000U, 299'000U}) {
        SCOPED_TRACE(after);
        FakeRelay relay({.cuts = {{after, true, true}}});
        const auto snapshot = connect_to(relay);
        EXPECT_FALSE(snapshot && send_all(**snapshot));
        EXPECT_FALSE(has_metadata(relay));
    }
}

TEST(RelaySnapshot, WhatIsPendingIsNotStored) {
    FakeRelay relay({.pending = 3});
    const auto snapshot = *connect_to(relay);
    ASSERT_TRUE(snapshot->write_packet(packet(0, 0, 10)));
    EXPECT_FALSE(snapshot->is_delivered());
    const auto early = snapshot->complete();
    ASSERT_FALSE(early) << "without its packets";
    EXPECT_TRUE(deliver(*snapshot));
    EXPECT_TRUE(snapshot->complete());
}

TEST(RelaySnapshot, RefusalOfAnythingEndsIt) {
    for (const RelayCommand command :
         {RelayCommand::kCreateSession, RelayCommand::kCreateTraceChunk, RelayCommand::kAddStream,
          RelayCommand::kDataPending, RelayCommand::kQuiescentControl, RelayCommand::kCloseTraceChunk}) {
        SCOPED_TRACE(wire::name_of(command));
        FakeRelay relay({.refuse = command});
        const auto snapshot = connect_to(relay);
        const auto path = snapshot ? send_all(**snapshot) : tl::unexpected(snapshot.error());
        ASSERT_FALSE(path);
        EXPECT_NE(path.error().message.find(wire::name_of(command)), std::string::npos) << path.error().message;
    }
}

}  // namespace
}  // namespace leat::output
