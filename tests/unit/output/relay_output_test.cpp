#include "output/relay_output.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "ctf/metadata/metadata_stream.hpp"
#include "support/fake_relay.hpp"
#include "support/patience.hpp"

namespace leat::output {
namespace {

using test::FakeRelay;
using wire::RelayCommand;

const std::string kMetadata = "/* CTF 1.8 */ trace { };\n";

SessionDescription live_session() {
    return {.name = "name",
            .hostname = "host",
            .trace_path = "ust/uid/7/64-bit",
            .channels = {{"channel0"}},
            .live_timer_us = 100'000,
            .trace_uuid = {9}};
}

std::unique_ptr<RelayOutput> connect_to(FakeRelay& relay) {
    auto output = RelayOutput::connect({"127.0.0.1", relay.control_port(), relay.data_port()}, live_session());
    EXPECT_TRUE(output) << output.error().message;
    return output ? std::move(*output) : nullptr;
}

// Records as they lie in a ring. They do not change.
const wire::Bytes& records() {
    static const wire::Bytes bytes = [] {
        wire::Bytes made;
        for (std::size_t i = 0; i < 300'000; ++i) made.push_back(static_cast<std::byte>(i % 251));
        return made;
    }();
    return bytes;
}

// Of the only channel.
consumer::StreamId stream_of(std::uint32_t ring) { return {.channel = 0, .ring = ring}; }

consumer::Packet packet(std::uint32_t ring, std::uint64_t number, std::size_t size) {
    const std::uint64_t bits = (ctf::kPacketHeaderSize + size) * 8;
    return {.stream = stream_of(ring),
            .header = {.stream_instance_id = ring,
                       .timestamp_begin = 1'000 * number,
                       .timestamp_end = 1'000 * (number + 1),
                       .content_size = bits,
                       .packet_size = bits,
                       .packet_seq_num = number,
                       .events_discarded = 3},
            .records = UntrustedBytes(records()).first(size),
            .events = 2};
}

std::vector<RelayCommand> commands(FakeRelay& relay) {
    std::vector<RelayCommand> commands;
    for (const FakeRelay::Request& request : relay.requests())
        if (request.command != RelayCommand::kDataPending) commands.push_back(request.command);
    return commands;
}

template <class Message>
std::vector<Message> all(FakeRelay& relay, RelayCommand command) {
    std::vector<Message> messages;
    for (const FakeRelay::Request& request : relay.requests())
        if (request.command == command) messages.push_back(*wire::parse<Message>(request.payload));
    return messages;
}

// Sends two streams, three packets and a beacon.
void send_all(RelayOutput& output) {
    ASSERT_TRUE(output.write_metadata(kMetadata));
    ASSERT_TRUE(output.announce(std::array{stream_of(0), stream_of(1)}));
    ASSERT_TRUE(output.write_packet(packet(0, 0, 0)));
    ASSERT_TRUE(output.write_packet(packet(1, 0, records().size())));
    ASSERT_TRUE(output.write_packet(packet(0, 1, 10)));
    output.write_beacon(stream_of(0), 9'000);
}

// Returns whether it came about.
template <class Condition>
bool run_until(RelayOutput& output, const Condition& is_done) {
    return test::wait_until(is_done, [&] {
        output.run();
        output.flush();
        std::this_thread::yield();
    });
}

bool deliver(RelayOutput& output) {
    return run_until(output, [&] { return output.is_delivered(); });
}

void close(RelayOutput& output) {
    output.begin_close();
    EXPECT_TRUE(run_until(output, [&] { return !output.awaits_close(); }));
}

TEST(RelayOutput, SaysWhatTheProtocolAsksForInItsOrder) {
    FakeRelay relay;
    const auto output = connect_to(relay);
    send_all(*output);
    ASSERT_TRUE(deliver(*output));
    close(*output);
    EXPECT_EQ(
        commands(relay),
        (std::vector{RelayCommand::kVersion,          RelayCommand::kGetConfiguration, RelayCommand::kCreateSession,
                     RelayCommand::kCreateTraceChunk, RelayCommand::kAddStream,        RelayCommand::kStreamsSent,
                     RelayCommand::kAddStream,        RelayCommand::kAddStream,        RelayCommand::kStreamsSent,
                     RelayCommand::kSendMetadata,     RelayCommand::kSendIndex,        RelayCommand::kSendIndex,
                     RelayCommand::kSendIndex,        RelayCommand::kSendIndex,        RelayCommand::kRotateStreams,
                     RelayCommand::kRotateStreams,    RelayCommand::kCloseTraceChunk,  RelayCommand::kCloseStream,
                     RelayCommand::kCloseStream,      RelayCommand::kCloseStream}));
    const auto session = all<wire::CreateSession>(relay, RelayCommand::kCreateSession).at(0);
    EXPECT_EQ(session.session_name, "name");
    EXPECT_EQ(session.hostname, "host");
    EXPECT_EQ(session.live_timer_us, 100'000U);
    const auto streams = all<wire::AddStream>(relay, RelayCommand::kAddStream);
    ASSERT_EQ(streams.size(), 3U);
    EXPECT_EQ(streams[0].channel_name, "metadata");
    EXPECT_EQ(streams[2].channel_name, "channel0_1");
    EXPECT_EQ(streams[2].path, "ust/uid/7/64-bit");
    EXPECT_TRUE(output->take_warnings().empty());
}

TEST(RelayOutput, StreamsAreCalledByChannelAndRing) {
    FakeRelay relay;
    SessionDescription session = live_session();
    session.channels = {{"channel0"}, {"other"}};
    const auto output = *RelayOutput::connect({"127.0.0.1", relay.control_port(), relay.data_port()}, session);
    const consumer::StreamId first{.channel = 0, .ring = 1};
    const consumer::StreamId second{.channel = 1, .ring = 1};
    ASSERT_TRUE(output->write_metadata(kMetadata));
    ASSERT_TRUE(output->announce(std::array{second, first}));
    consumer::Packet of_second = packet(1, 0, 20);
    of_second.stream = second;
    ASSERT_TRUE(output->write_packet(of_second));
    ASSERT_TRUE(deliver(*output));
    std::map<std::string, std::uint64_t> handles;  // as the relay counts them
    for (const auto& stream : all<wire::AddStream>(relay, RelayCommand::kAddStream)) {
        const std::uint64_t handle = handles.size() + 1;
        handles[stream.channel_name] = handle;
    }
    EXPECT_EQ(handles.size(), 3U);
    EXPECT_TRUE(handles.contains("channel0_1"));
    ASSERT_EQ(relay.data().size(), 1U);
    EXPECT_EQ(relay.data()[0].header.stream_id, handles["other_1"]);
    EXPECT_EQ(output->stored(second), 1U);
    EXPECT_EQ(output->stored(first), 0U);
}

TEST(RelayOutput, PacketsArriveAsTheyAreWithTheirIndex) {
    FakeRelay relay;
    const auto output = connect_to(relay);
    send_all(*output);
    ASSERT_TRUE(deliver(*output));
    const auto data = relay.data();
    ASSERT_EQ(data.size(), 3U);
    const consumer::Packet large = packet(1, 0, records().size());
    wire::Bytes expected;
    const auto header = ctf::encode(large.header);
    expected.insert(expected.end(), header.begin(), header.end());
    expected.insert(expected.end(), records().begin(), records().end());
    EXPECT_EQ(data[1].bytes, expected);
    const auto index = all<wire::SendIndex>(relay, RelayCommand::kSendIndex).at(1);
    EXPECT_EQ(index.stream_id, data[1].header.stream_id);
    EXPECT_EQ(index.entry.packet_size, large.header.packet_size);
    EXPECT_EQ(index.entry.timestamp_end, 1'000U);
    EXPECT_EQ(index.entry.events_discarded, 3U);
    EXPECT_EQ(index.entry.stream_instance_id, 1U);
    EXPECT_EQ(output->stored(stream_of(0)), 2U);
    EXPECT_EQ(output->stored(stream_of(1)), 1U);
}

TEST(RelayOutput, RewrittenHeaderGoesOutInPlaceOfTheRecords) {
    FakeRelay relay;
    const auto output = connect_to(relay);
    ASSERT_TRUE(output->write_metadata(kMetadata));
    ASSERT_TRUE(output->announce(std::array{stream_of(0)}));
    consumer::Packet late = packet(0, 0, 10);
    late.late_records.assign(4, std::byte{'h'});
    ASSERT_TRUE(output->write_packet(late));
    ASSERT_TRUE(deliver(*output));
    const wire::Bytes bytes = relay.data().at(0).bytes;
    ASSERT_EQ(bytes.size(), ctf::kPacketHeaderSize + 10);
    EXPECT_EQ(bytes[ctf::kPacketHeaderSize + 3], std::byte{'h'});
    EXPECT_EQ(bytes[ctf::kPacketHeaderSize + 4], records()[4]);
}

TEST(RelayOutput, BeaconDoesNotOvertakeItsStreamsPackets) {
    FakeRelay relay;
    const auto output = connect_to(relay);
    send_all(*output);
    ASSERT_TRUE(deliver(*output));
    const auto indexes = all<wire::SendIndex>(relay, RelayCommand::kSendIndex);
    ASSERT_EQ(indexes.size(), 4U);
    EXPECT_TRUE(indexes[3].is_beacon());
    EXPECT_EQ(indexes[3].entry.timestamp_end, 9'000U);
    EXPECT_EQ(indexes[3].net_seq_num, 1U);
}

TEST(RelayOutput, MetadataIsPacketsOfText) {
    FakeRelay relay;
    const auto output = connect_to(relay);
    const std::string unit = kMetadata + std::string(10'000, ' ') + "event { };\n";
    ASSERT_TRUE(output->write_metadata(unit));
    ASSERT_TRUE(output->announce(std::array{stream_of(0)}));
    ASSERT_TRUE(output->write_packet(packet(0, 0, 0)));
    ASSERT_TRUE(deliver(*output));
    wire::Bytes stream;
    for (const FakeRelay::Request& request : relay.requests()) {
        if (request.command != RelayCommand::kSendMetadata) continue;
        const auto head = *wire::parse<wire::SendMetadata>(UntrustedBytes(request.payload).first(12));
        stream.insert(stream.end(), request.payload.begin() + 12, request.payload.end());
        stream.resize(stream.size() + head.padding_size);
        EXPECT_EQ(stream.size() % 4096, 0U);
    }
    EXPECT_EQ(*ctf::parse_metadata_stream(stream), unit);
}

TEST(RelayOutput, RepliesInPiecesAreReplies) {
    FakeRelay relay({std::nullopt, std::nullopt, true});
    const auto output = connect_to(relay);
    send_all(*output);
    ASSERT_TRUE(deliver(*output));
    EXPECT_EQ(output->figures().parts, 1U);
}

// In a part that begins with all its streams, the relay answers for the data streams first. This relay delays its
// answer for the metadata.
TEST(RelayOutput, NothingLeavesBeforeTheMetadata) {
    constexpr std::size_t kCutAt = 7;  // the streams have been announced
    FakeRelay relay({.cut_at = kCutAt, .hold_part = 2});
    auto output = *RelayOutput::connect({"127.0.0.1", relay.control_port(), relay.data_port()}, live_session(),
                                        std::chrono::milliseconds(1));
    ASSERT_TRUE(output->write_metadata(kMetadata));
    ASSERT_TRUE(output->announce(std::array{stream_of(0)}));
    ASSERT_TRUE(test::wait_until([&] { return output->figures().parts == 2 && relay.is_holding(); },
                                 [&] {
                                     output->run();
                                     std::this_thread::yield();
                                 }));
    ASSERT_TRUE(output->write_packet(packet(0, 0, 10)));
    for (int i = 0; i < 3; ++i) output->run();  // reads the answer for the data stream
    relay.release();
    ASSERT_TRUE(deliver(*output));
    const auto said = commands(relay);
    const auto of_second_part = std::find(said.rbegin(), said.rend(), RelayCommand::kCreateSession).base();
    const auto first = std::find_if(of_second_part, said.end(), [](RelayCommand command) {
        return command == RelayCommand::kSendMetadata || command == RelayCommand::kSendIndex;
    });
    ASSERT_NE(first, said.end());
    EXPECT_EQ(*first, RelayCommand::kSendMetadata);
}

TEST(RelayOutput, WhatIsPendingIsAskedForAgain) {
    FakeRelay relay({.pending = 3});
    const auto output = connect_to(relay);
    ASSERT_TRUE(output->announce(std::array{stream_of(0)}));
    ASSERT_TRUE(output->write_metadata(kMetadata));
    ASSERT_TRUE(output->write_packet(packet(0, 0, 10)));
    ASSERT_TRUE(deliver(*output));
    EXPECT_EQ(output->stored(stream_of(0)), 1U);
    EXPECT_GE(all<wire::DataPending>(relay, RelayCommand::kDataPending).size(), 4U);
}

// The relay holds its answer about the first packet until it is told to release it; meanwhile the second one arrives.
void send_another_before_the_answer(RelayOutput& output, FakeRelay& relay) {
    ASSERT_TRUE(output.announce(std::array{stream_of(0)}));
    ASSERT_TRUE(output.write_metadata(kMetadata));
    ASSERT_TRUE(output.write_packet(packet(0, 0, 10)));
    ASSERT_TRUE(run_until(output, [&] { return relay.is_holding(); }));
    ASSERT_TRUE(output.write_packet(packet(0, 1, 10)));
    ASSERT_TRUE(run_until(output, [&] { return relay.data().size() == 2; }));
}

// The newest packet of a steady flow is always still under way: whoever asked for that would never hear of any.
TEST(RelayOutput, WhatIsPendingIsAskedForBeforeWhatWasSentSince) {
    FakeRelay relay({.holds_pending = true, .pending = 1});
    const auto output = connect_to(relay);
    ASSERT_NO_FATAL_FAILURE(send_another_before_the_answer(*output, relay));
    relay.release();
    ASSERT_TRUE(deliver(*output));
    const auto questions = all<wire::DataPending>(relay, RelayCommand::kDataPending);
    ASSERT_EQ(questions.size(), 3U);
    EXPECT_EQ(questions[0].last_net_seq_num, 0U);
    EXPECT_EQ(questions[1].last_net_seq_num, 0U);
    EXPECT_EQ(questions[2].last_net_seq_num, 1U);
}

TEST(RelayOutput, SaysWhyItGetsNowhereUntilItDoes) {
    FakeRelay relay({.cut_at = 6});
    const auto output = connect_to(relay);
    EXPECT_EQ(output->storage_trouble(), "");
    ASSERT_TRUE(output->announce(std::array{stream_of(0)}));
    ASSERT_TRUE(output->write_metadata(kMetadata));
    ASSERT_TRUE(output->write_packet(packet(0, 0, 10)));
    ASSERT_TRUE(run_until(*output, [&] { return !output->is_connected(); }));
    EXPECT_TRUE(output->storage_trouble().starts_with("relay 127.0.0.1:")) << output->storage_trouble();
    ASSERT_TRUE(deliver(*output));
    EXPECT_EQ(output->storage_trouble(), "");
}

// The answer comes after more has been sent.
TEST(RelayOutput, StoredIsWhatWasAskedFor) {
    FakeRelay relay({.holds_pending = true});
    const auto output = connect_to(relay);
    ASSERT_NO_FATAL_FAILURE(send_another_before_the_answer(*output, relay));
    EXPECT_EQ(output->stored(stream_of(0)), 0U);
    relay.release();
    ASSERT_TRUE(run_until(*output, [&] { return output->stored(stream_of(0)) != 0; }));
    EXPECT_EQ(output->stored(stream_of(0)), 1U);
    ASSERT_TRUE(deliver(*output));
    EXPECT_EQ(output->stored(stream_of(0)), 2U);
}

TEST(RelayOutput, WhatTheRelayTakesAndStoresIsCounted) {
    FakeRelay relay({.holds_pending = true});
    const auto output = connect_to(relay);
    ASSERT_TRUE(output->announce(std::array{stream_of(0)}));
    ASSERT_TRUE(output->write_metadata(kMetadata));
    ASSERT_TRUE(output->write_packet(packet(0, 0, records().size())));
    // Long before it is stored.
    ASSERT_TRUE(run_until(*output, [&] { return relay.is_holding() && output->taken() > records().size(); }));
    const std::uint64_t taken = output->taken();
    const auto undelivered = output->check_delivered();
    ASSERT_FALSE(undelivered);
    EXPECT_NE(undelivered.error().message.find("does not take packet 0 of stream channel0_0: 2 events"),
              std::string::npos)
        << undelivered.error().message;
    relay.release();
    ASSERT_TRUE(run_until(*output, [&] { return output->is_delivered(); }));
    EXPECT_GT(output->taken(), taken);
    EXPECT_TRUE(output->check_delivered());
}

TEST(RelayOutput, WhatIsTakenCountsOverAllConnections) {
    FakeRelay relay({std::nullopt, RelayCommand::kDataPending, false});
    const auto output = connect_to(relay);
    send_all(*output);
    std::uint64_t taken = output->taken();
    ASSERT_TRUE(run_until(*output, [&] {
        EXPECT_GE(output->taken(), taken) << "a connection that broke has taken it";
        taken = output->taken();
        return output->is_delivered();
    }));
    EXPECT_EQ(output->figures().parts, 2U);
}

// Who waits as long as something is taken would wait for ever.
TEST(RelayOutput, RelayThatRefusesAllStreamsComesNoFurther) {
    FakeRelay relay({.refuse = RelayCommand::kAddStream, .refuses_always = true});
    const auto output = connect_to(relay);
    send_all(*output);
    const auto connect_times = [&](std::size_t count) {
        return run_until(*output, [&] {
            const auto said = commands(relay);
            return static_cast<std::size_t>(std::ranges::count(said, RelayCommand::kCreateSession)) >= count;
        });
    };
    ASSERT_TRUE(connect_times(4));
    const std::uint64_t taken = output->taken();
    ASSERT_TRUE(connect_times(8));
    EXPECT_EQ(output->taken(), taken);
}

TEST(RelayOutput, EndBeforeTheRelayHasAStreamForTheMetadataComesAfterIt) {
    FakeRelay relay({.hold_part = 1});
    const auto output = connect_to(relay);
    ASSERT_TRUE(output->write_metadata(kMetadata));
    ASSERT_TRUE(run_until(*output, [&] { return relay.is_holding(); }));
    output->begin_close();
    output->run();
    EXPECT_TRUE(output->awaits_close());
    relay.release();
    ASSERT_TRUE(run_until(*output, [&] { return !output->awaits_close(); }));
    EXPECT_EQ(commands(relay).back(), RelayCommand::kCloseStream);
}

TEST(RelayOutput, RelayThatIsNotThereYetIsNotWaitedFor) {
    FakeRelay relay;
    const net::RelayAddress address{"127.0.0.1", relay.control_port(), relay.data_port()};
    const auto output =
        RelayOutput::begin(address, live_session(), RelayOutput::Place::kAlone, std::chrono::milliseconds(1));
    send_all(*output);
    EXPECT_TRUE(output->is_connecting());
    EXPECT_FALSE(output->is_delivered());
    ASSERT_TRUE(run_until(*output, [&] { return output->is_delivered(); }));
    close(*output);
    EXPECT_EQ(relay.data().size(), 3U);
}

TEST(RelayOutput, RelayOfAnOlderMinorIsSpokenToAsItAsks) {
    FakeRelay relay({.minor = 11});
    const auto output = connect_to(relay);
    send_all(*output);
    ASSERT_TRUE(deliver(*output));
    close(*output);
    const auto said = commands(relay);
    EXPECT_EQ(std::ranges::count(said, RelayCommand::kGetConfiguration), 0) << "2.11 does not know it";
    EXPECT_EQ(output->stored(stream_of(1)), 1U);
    EXPECT_TRUE(output->take_warnings().empty());
}

TEST(RelayOutput, RelayThatIsTooOldIsNamed) {
    FakeRelay relay({.minor = 10});
    const auto output = RelayOutput::connect({"127.0.0.1", relay.control_port(), relay.data_port()}, live_session());
    ASSERT_FALSE(output);
    EXPECT_NE(output.error().message.find("it speaks protocol 2.10, 2.11 or later is needed: upgrade the relay"),
              std::string::npos)
        << output.error().message;
}

TEST(RelayOutput, PortForDataThatIsClosedIsNamed) {
    FakeRelay relay;
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in nobody_listens{};
    nobody_listens.sin_family = AF_INET;
    nobody_listens.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof nobody_listens;
    auto* const generic = reinterpret_cast<sockaddr*>(&nobody_listens);  // NOLINT(*-reinterpret-cast)
    ASSERT_EQ(::bind(socket.get(), generic, size), 0);
    ASSERT_EQ(::getsockname(socket.get(), generic, &size), 0);
    const std::uint16_t port = ::ntohs(nobody_listens.sin_port);
    const auto output = RelayOutput::connect({"127.0.0.1", relay.control_port(), port}, live_session());
    ASSERT_FALSE(output);
    EXPECT_NE(output.error().message.find(fmt::format("its port {} for data: cannot connect", port)), std::string::npos)
        << output.error().message;
}

TEST(RelayOutput, DatagramsArePiecesOfTheSamePackets) {
    FakeRelay relay({std::nullopt, std::nullopt, false, true});
    auto output = *RelayOutput::connect({"127.0.0.1", relay.control_port(), relay.data_port(), true}, live_session());
    EXPECT_LE(output->max_packet_size(), 64U << 10);
    ASSERT_TRUE(output->write_metadata(kMetadata));
    ASSERT_TRUE(output->announce(std::array{stream_of(0)}));
    // Packets of one piece, packets that end with a piece, and one whose border between header and records is within a
    // piece.
    const std::vector<std::size_t> sizes{0, 10, wire::kDatagramPiece - ctf::kPacketHeaderSize, 100'000};
    for (std::size_t i = 0; i < sizes.size(); ++i) ASSERT_TRUE(output->write_packet(packet(0, i, sizes[i])));
    ASSERT_TRUE(deliver(*output));
    const auto data = relay.data();
    ASSERT_EQ(data.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        wire::Bytes expected;
        consumer::append_head(expected, packet(0, i, sizes[i]));
        expected.insert(expected.end(), records().begin(), records().begin() + static_cast<std::ptrdiff_t>(sizes[i]));
        EXPECT_EQ(data[i].bytes, expected);
    }
    EXPECT_EQ(all<wire::SendIndex>(relay, RelayCommand::kSendIndex).size(), sizes.size());
}

TEST(RelayOutput, RelayWithoutDatagramsIsToldAtTheStart) {
    FakeRelay relay;
    const auto output =
        RelayOutput::connect({"127.0.0.1", relay.control_port(), relay.data_port(), true}, live_session());
    ASSERT_FALSE(output);
    EXPECT_NE(output.error().message.find("it does not take datagrams: use net://"), std::string::npos);
}

// Expects that packets in flight were sent again under their numbers, and all metadata before them.
void expect_whole_in_parts(FakeRelay& relay, RelayOutput& output, std::uint64_t parts) {
    EXPECT_EQ(output.figures().parts, parts);
    EXPECT_EQ(output.figures().packets_stored, 3U);
    EXPECT_EQ(output.figures().events_lost, 0U);
    std::set<std::pair<std::uint64_t, std::uint64_t>> sizes;
    for (const FakeRelay::Data& data : relay.data()) sizes.emplace(data.header.net_seq_num, data.bytes.size());
    EXPECT_EQ(sizes.size(), 3U);
    const auto sessions = all<wire::CreateSession>(relay, RelayCommand::kCreateSession);
    EXPECT_EQ(sessions.front().session_name, sessions.back().session_name);
    if (parts > 1) {
        EXPECT_GT(sessions.back().creation_time, sessions.front().creation_time) << "parts share a directory";
        EXPECT_NE(sessions.back().sessiond_uuid, sessions.front().sessiond_uuid);
    }
}

// What comes after `count` requests.
std::vector<RelayCommand> commands_after(FakeRelay& relay, std::size_t count) {
    std::vector<RelayCommand> found = commands(relay);
    found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
    return found;
}

TEST(RelayOutput, ChunkBeginsAfterTheLastPacketWithAllMetadata) {
    FakeRelay relay;
    const auto output = connect_to(relay);
    send_all(*output);
    ASSERT_TRUE(deliver(*output));
    ASSERT_TRUE(output->prepare_chunk({}));
    const std::size_t before = commands(relay).size();
    const std::uint64_t part = output->part();
    const auto archived = output->begin_chunk();
    ASSERT_TRUE(archived) << archived.error().message;
    EXPECT_EQ(*archived, "host/session/archives");
    EXPECT_EQ(output->part(), part + 1) << "streams begin anew";
    EXPECT_EQ(commands_after(relay, before),
              (std::vector{RelayCommand::kCreateTraceChunk, RelayCommand::kRotateStreams, RelayCommand::kRotateStreams,
                           RelayCommand::kSendMetadata, RelayCommand::kCloseTraceChunk}));
    const auto rotations = all<wire::RotateStreams>(relay, RelayCommand::kRotateStreams);
    ASSERT_EQ(rotations.size(), 2U);
    EXPECT_EQ(rotations[0].new_chunk_id, 1U);
    ASSERT_EQ(rotations[0].positions.size(), 2U);
    EXPECT_EQ(rotations[0].positions[0].rotate_at, 2U);
    EXPECT_EQ(rotations[0].positions[1].rotate_at, 1U);
    EXPECT_EQ(rotations[1].positions.size(), 1U);
    ASSERT_TRUE(output->announce(std::array{stream_of(2)}));
    ASSERT_TRUE(output->write_packet(packet(0, 2, 10)));
    ASSERT_TRUE(deliver(*output));
    close(*output);
    EXPECT_EQ(all<wire::AddStream>(relay, RelayCommand::kAddStream).back().trace_chunk_id, 1U);
    const auto closed = all<wire::CloseTraceChunk>(relay, RelayCommand::kCloseTraceChunk);
    ASSERT_EQ(closed.size(), 2U);
    EXPECT_EQ(closed[0].chunk_id, 0U);
    EXPECT_EQ(closed[0].command, wire::ChunkCommand::kMoveToArchives);
    EXPECT_EQ(closed[1].chunk_id, 1U);
    EXPECT_EQ(closed[1].command, wire::ChunkCommand::kMoveToArchives);
}

TEST(RelayOutput, ChunkOfASessionThatHasJustBegunWaitsForTheFirstConnection) {
    FakeRelay relay;
    const net::RelayAddress address{"127.0.0.1", relay.control_port(), relay.data_port()};
    const auto output = RelayOutput::begin(address, live_session(), RelayOutput::Place::kAlone);
    ASSERT_TRUE(output->write_metadata(kMetadata));
    ASSERT_TRUE(output->prepare_chunk({}));
    EXPECT_TRUE(output->begin_chunk());
}

TEST(RelayOutput, ClearDeletesAChunk) {
    FakeRelay relay;
    const auto output = connect_to(relay);
    send_all(*output);
    ASSERT_TRUE(deliver(*output));
    ASSERT_TRUE(output->clear());
    close(*output);
    const auto closed = all<wire::CloseTraceChunk>(relay, RelayCommand::kCloseTraceChunk);
    ASSERT_EQ(closed.size(), 2U);
    EXPECT_EQ(closed[0].command, wire::ChunkCommand::kDelete);
    EXPECT_EQ(closed[1].command, std::nullopt) << "it was never rotated";
}

TEST(RelayOutput, RelayThatDoesNotAllowToClearIsNotAskedTo) {
    FakeRelay relay({.allows_clear = false});
    const auto output = connect_to(relay);
    send_all(*output);
    ASSERT_TRUE(deliver(*output));
    const std::size_t before = commands(relay).size();
    const auto cleared = output->clear();
    ASSERT_FALSE(cleared);
    EXPECT_NE(cleared.error().message.find("--disallow-clear"), std::string::npos) << cleared.error().message;
    EXPECT_TRUE(commands_after(relay, before).empty());
}

TEST(RelayOutput, ChunkThatTheRelayRefusesEndsThePartAndLosesNothing) {
    for (const RelayCommand refused : {RelayCommand::kRotateStreams, RelayCommand::kCloseTraceChunk}) {
        SCOPED_TRACE(wire::name_of(refused));
        FakeRelay relay({.refuse = refused});
        const auto output = connect_to(relay);
        send_all(*output);
        ASSERT_TRUE(deliver(*output));
        ASSERT_TRUE(output->prepare_chunk({}));
        const auto archived = output->begin_chunk();
        ASSERT_FALSE(archived);
        EXPECT_NE(archived.error().message.find("goes on there as a new part"), std::string::npos);
        ASSERT_TRUE(output->write_packet(packet(0, 2, 10)));
        ASSERT_TRUE(deliver(*output));
        EXPECT_EQ(output->figures().parts, 2U);
        EXPECT_EQ(output->figures().packets_stored, 4U);
        EXPECT_EQ(output->figures().packets_sent, 4U) << "what was stored is not sent again";
        ASSERT_TRUE(output->prepare_chunk({})) << "it can be rotated there";
        EXPECT_TRUE(output->begin_chunk());
    }
}

TEST(RelayOutput, CutAtEachRequestLosesNothing) {
    constexpr std::size_t kOfHandshake = 4;
    constexpr std::size_t kRequests = 15;  // as many as come before the first question about what is stored
    for (std::size_t cut_at = kOfHandshake; cut_at < kRequests; ++cut_at) {
        SCOPED_TRACE(cut_at);
        FakeRelay relay({cut_at, std::nullopt, false});
        const auto output = connect_to(relay);
        send_all(*output);
        ASSERT_TRUE(deliver(*output));
        expect_whole_in_parts(relay, *output, 2);
        EXPECT_EQ(output->take_warnings().size(), 1U);
    }
}

// Positions anywhere in messages and packets, on the first connections and on those that replace them.
std::vector<FakeRelay::Cut> random_cuts(std::mt19937& random, std::size_t count) {
    std::vector<FakeRelay::Cut> cuts;
    // The handshake of the first part is not cut. Without it there is no session.
    constexpr std::size_t kOfHandshake = 500;
    for (std::size_t i = 0; i < count; ++i) {
        const auto which = random() % 3;
        cuts.push_back({(i == 0 ? kOfHandshake : 1) + random() % 20'000, which != 0, which != 1});
    }
    return cuts;
}

TEST(RelayOutput, CutAtAThousandBytesLosesNothingAndDoublesNothing) {
    constexpr std::size_t kRuns = 50;
    constexpr std::size_t kCuts = 20;
    constexpr std::size_t kPackets = 40;
    std::mt19937 random(1);
    std::uint64_t parts = 0;
    for (std::size_t run = 0; run < kRuns; ++run) {
        SCOPED_TRACE(run);
        FakeRelay relay({std::nullopt, std::nullopt, false, false, random_cuts(random, kCuts)});
        auto output = *RelayOutput::connect({"127.0.0.1", relay.control_port(), relay.data_port()}, live_session(),
                                            std::chrono::milliseconds(1));
        ASSERT_TRUE(output->write_metadata(kMetadata));
        ASSERT_TRUE(output->announce(std::array{stream_of(0), stream_of(1)}));
        for (std::size_t i = 0; i < kPackets; ++i)
            ASSERT_TRUE(output->write_packet(packet(static_cast<std::uint32_t>(i % 2), i / 2, 100 * i)));
        ASSERT_TRUE(deliver(*output));
        EXPECT_EQ(output->figures().packets_stored, kPackets);
        std::set<std::size_t> sizes;
        std::set<std::pair<std::uint64_t, std::uint64_t>> places;
        for (const FakeRelay::Data& data : relay.data()) {
            EXPECT_TRUE(places.emplace(data.header.stream_id, data.header.net_seq_num).second) << "twice in a part";
            sizes.insert(data.bytes.size());
        }
        EXPECT_EQ(sizes.size(), kPackets);
        parts += output->figures().parts;
    }
    EXPECT_GT(parts, kRuns * kCuts / 4);
}

TEST(RelayOutput, RefusalOfAnythingBeginsANewPart) {
    for (const RelayCommand command :
         {RelayCommand::kAddStream, RelayCommand::kStreamsSent, RelayCommand::kSendIndex, RelayCommand::kDataPending}) {
        SCOPED_TRACE(wire::name_of(command));
        FakeRelay relay({std::nullopt, command, false});
        const auto output = connect_to(relay);
        send_all(*output);
        ASSERT_TRUE(deliver(*output));
        expect_whole_in_parts(relay, *output, 2);
        const auto warnings = output->take_warnings();
        ASSERT_EQ(warnings.size(), 1U);
        EXPECT_NE(warnings[0].find(fmt::format("it answers {} with error 11: events stay in the rings until it is back",
                                               wire::name_of(command))),
                  std::string::npos)
            << warnings[0];
    }
}

// Those versions have no trace chunks, and their relays are ten years old.
TEST(RelayOutput, RelaysBefore11AreRefusedWithTheirVersion) {
    for (std::uint32_t minor = 1; minor < 11; ++minor) {
        FakeRelay relay(FakeRelay::Script{.minor = minor});
        const auto output =
            RelayOutput::connect({"127.0.0.1", relay.control_port(), relay.data_port()}, live_session());
        ASSERT_FALSE(output) << minor;
        EXPECT_NE(output.error().message.find(fmt::format("2.{}", minor)), std::string::npos) << output.error().message;
        EXPECT_NE(output.error().message.find("2.11"), std::string::npos) << output.error().message;
        EXPECT_EQ(commands(relay), (std::vector{RelayCommand::kVersion}));
    }
}

// A relay of a later version than ours speaks our version.
TEST(RelayOutput, RelaysFrom11OnGetWhatTheirVersionHas) {
    for (const std::uint32_t minor : {11U, 12U, 13U, 14U, 4711U}) {
        FakeRelay relay(FakeRelay::Script{.minor = minor});
        const auto output = connect_to(relay);
        ASSERT_NE(output, nullptr) << minor;
        send_all(*output);
        ASSERT_TRUE(deliver(*output)) << minor;
        close(*output);
        EXPECT_EQ(relay.data().size(), 3U) << minor;
        const auto said = commands(relay);
        EXPECT_EQ(std::ranges::count(said, RelayCommand::kGetConfiguration), minor >= 12 ? 1 : 0) << minor;
        EXPECT_EQ(std::ranges::count(said, RelayCommand::kSendIndex), 4) << minor;
        for (const auto& version : all<wire::Version>(relay, RelayCommand::kVersion))
            EXPECT_EQ(version.minor, wire::kProtocolMinor);
    }
}

TEST(RelayOutput, RefusedSessionIsNoSession) {
    for (const RelayCommand command : {RelayCommand::kCreateSession, RelayCommand::kCreateTraceChunk}) {
        FakeRelay relay({std::nullopt, command, false});
        const auto output =
            RelayOutput::connect({"127.0.0.1", relay.control_port(), relay.data_port()}, live_session());
        ASSERT_FALSE(output);
        EXPECT_NE(output.error().message.find(fmt::format("it answers {} with error 11", wire::name_of(command))),
                  std::string::npos);
    }
}

}  // namespace
}  // namespace leat::output
