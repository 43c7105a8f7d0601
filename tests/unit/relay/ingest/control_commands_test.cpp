#include "relay/ingest/control_commands.hpp"

#include <gtest/gtest.h>

#include "support/local_producer.hpp"

namespace leat::relay {
namespace {

using wire::RelayCode;
using wire::RelayCommand;

class ControlCommandsTest : public testing::Test {
  protected:
    static RelayCode code_of(const CommandOutcome& outcome) {
        return wire::parse<wire::CodeReply>(outcome.reply)->code;
    }

    test::ScratchDirectory scratch;
    Relay relay{*ConfinedDirectory::open_root(scratch.path().string())};
    test::LocalProducer producer{relay};
};

TEST_F(ControlCommandsTest, OpenStreamsOfASessionAreLimited) {
    constexpr std::size_t kMost = 16384;
    producer.begin_session();
    for (std::size_t i = 0; i < kMost; ++i) {
        // The producers are on many hosts, because our file limit also limits what one host may open.
        producer.producer().principal.address = fmt::format("host {}", i / 16);
        ASSERT_NE(producer.add_stream(fmt::format("channel_{}", i)), 0U);
    }
    producer.producer().principal.address = "another host";
    EXPECT_EQ(producer.add_stream("channel"), 0U);
    EXPECT_EQ(producer.add_stream("metadata"), 0U);
}

TEST_F(ControlCommandsTest, OutputDirectoryThatWasRemovedIsMadeAgain) {
    std::filesystem::remove_all(scratch.path());
    producer.begin_session();
    EXPECT_NE(producer.add_stream("channel_0"), 0U);
    EXPECT_FALSE(std::filesystem::is_empty(scratch.path()));
}

TEST_F(ControlCommandsTest, OfStreamsThatHaveEndedTheLastAreRemembered) {
    producer.begin_session();
    for (int i = 0; i < 1030; ++i) producer.close_stream(producer.add_stream(fmt::format("channel_{}", i)));
    producer.session().locked([](const SessionState& state) {
        EXPECT_EQ(state.streams.size(), 1024U);
        EXPECT_EQ(state.by_handle.size(), 1024U);
        EXPECT_EQ(state.forgotten, 6U);
    });
}

TEST_F(ControlCommandsTest, BothSidesUseTheSmallerMinor) {
    for (const std::uint32_t minor : {4U, 11U, 13U, 99U}) {
        test::LocalProducer peer(relay, minor);
        EXPECT_EQ(peer.producer().minor, std::min(minor, wire::kProtocolMinor));
    }
    test::LocalProducer old(relay, 11);
    EXPECT_EQ(code_of(old.run(RelayCommand::kGetConfiguration, wire::GetConfiguration{})), RelayCode::kUnknownError);
}

// LTTng's relay refuses all flags. A peer goes on without what was refused.
TEST_F(ControlCommandsTest, UnknownQueriesAreRefusedAndTheConnectionStays) {
    constexpr std::uint64_t kOne = 1;
    for (const std::uint64_t flags : {kOne, kOne << 62, wire::kQueryDatagrams | kOne, ~std::uint64_t{0}}) {
        const auto outcome =
            producer.run(RelayCommand::kGetConfiguration, wire::GetConfiguration{.query_flags = flags});
        const auto reply = wire::parse<wire::ConfigurationReply>(outcome.reply);
        EXPECT_EQ(reply->code, RelayCode::kProtocolError) << flags;
        EXPECT_EQ(reply->flags, 0U);
        EXPECT_FALSE(outcome.ends_connection);
        EXPECT_FALSE(producer.producer().can_send_datagrams);
    }
    for (const std::uint64_t flags : {std::uint64_t{0}, wire::kQueryDatagrams}) {
        const auto outcome =
            producer.run(RelayCommand::kGetConfiguration, wire::GetConfiguration{.query_flags = flags});
        const auto reply = wire::parse<wire::ConfigurationReply>(outcome.reply);
        EXPECT_EQ(reply->code, RelayCode::kOk);
        EXPECT_EQ(reply->flags, wire::kClearAllowed | flags);
    }
}

TEST_F(ControlCommandsTest, AcknowledgedIsWhatIsStored) {
    producer.begin_session();
    const std::uint64_t stream = producer.add_stream("channel_0");
    const auto is_stored = [&](std::uint64_t number) {
        const auto outcome = producer.run(RelayCommand::kDataPending, wire::DataPending{stream, number});
        return code_of(outcome) == RelayCode::kNotPending;
    };
    EXPECT_TRUE(is_stored(wire::kNoPacket));
    producer.send_index(stream, 0, 6);
    EXPECT_FALSE(is_stored(0)) << "its data has not come";
    producer.send_data(stream, 0, "packet");
    EXPECT_TRUE(is_stored(0));
    producer.send_data(stream, 1, "packet");
    EXPECT_FALSE(is_stored(1)) << "its index has not come";
}

// A producer may go on to make streams, and sends what it has in a new session once it knows that this came to nothing.
TEST_F(ControlCommandsTest, StreamThatComesAfterTheDataConnectionWaitsForNone) {
    producer.begin_session();
    producer.session().end_data(std::chrono::steady_clock::now());
    const std::uint64_t stream = producer.add_stream("channel_0");
    producer.send_index(stream, 0, 6);
    const auto outcome = producer.run(RelayCommand::kDataPending, wire::DataPending{stream, 0});
    EXPECT_TRUE(outcome.error);
}

TEST_F(ControlCommandsTest, ClearsAreForThoseWhoMay) {
    relay.set_policy({.is_clear_allowed = false});
    producer.begin_session();
    const auto outcome = producer.run(RelayCommand::kCloseTraceChunk,
                                      wire::CloseTraceChunk{.chunk_id = 0, .command = wire::ChunkCommand::kDelete});
    EXPECT_TRUE(outcome.ends_connection);
    EXPECT_TRUE(producer.session().directory()->is_open(0));
}

TEST_F(ControlCommandsTest, SessionEndsWhenTheDataOfItsIndexesIsThere) {
    producer.begin_session();
    const std::uint64_t handle = producer.add_stream("channel_0");
    producer.session().locked([](SessionState& state) { state.has_data_connection = true; });
    producer.send_index(handle, 0, 6);
    DataStream& stream = producer.stream(handle);
    end_producer(producer.producer());
    EXPECT_FALSE(stream.is_finished());
    producer.send_data(handle, 0, "packet");
    EXPECT_TRUE(producer.session().finish_streams(std::chrono::steady_clock::now()));
    EXPECT_EQ(stream.lost_packets(), 0U);
    EXPECT_EQ(stream.view().packets, 1U);
}

TEST_F(ControlCommandsTest, DataWithoutAnIndexDoesNotKeepOutWhatIsBehindIt) {
    producer.begin_session();
    const std::uint64_t awaited = producer.add_stream("channel_0");
    const std::uint64_t other = producer.add_stream("channel_1");
    producer.session().locked([](SessionState& state) { state.has_data_connection = true; });
    producer.send_index(awaited, 0, 6);
    end_producer(producer.producer());
    producer.send_data(other, 0, "in front");
    producer.send_data(awaited, 0, "packet");
    EXPECT_TRUE(producer.session().finish_streams(std::chrono::steady_clock::now()));
    EXPECT_EQ(producer.stream(awaited).view().packets, 1U);
}

}  // namespace
}  // namespace leat::relay
