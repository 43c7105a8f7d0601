#include "relay/ingest/datagram_receiver.hpp"

#include <gtest/gtest.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <list>

#include "relay/ingest/control_commands.hpp"
#include "support/scratch_directory.hpp"

namespace leat::relay {
namespace {

using asio::ip::udp;
using wire::RelayCommand;

// A relay with one thread. Producers' commands are run at once, and their datagrams really come through a socket.
class DatagramReceiverTest : public testing::Test {
  protected:
    DatagramReceiverTest() {
        asio::co_spawn(context, receiver.receive(), asio::detached);
        sender.open(udp::v4());
    }
    ~DatagramReceiverTest() override {
        for (Producer& producer : producers) end_producer(producer);
        receiver.close();
        context.run();
    }

    // Starts a session with one stream and returns the stream's handle.
    std::uint64_t start() {
        Producer& producer = producers.emplace_back();
        producer.relay = &relay;
        const auto ask = [&](RelayCommand command, const auto& message) {
            const CommandOutcome outcome = run_command(producer, command, wire::encode(message, 13));
            EXPECT_FALSE(outcome.ends_connection) << wire::name_of(command);
            return outcome.reply;
        };
        ask(RelayCommand::kVersion, wire::Version{});
        ask(RelayCommand::kGetConfiguration, wire::GetConfiguration{.query_flags = wire::kQueryDatagrams});
        ask(RelayCommand::kCreateSession, wire::CreateSession{.session_name = fmt::format("s{}", producers.size()),
                                                              .hostname = "host",
                                                              .sessiond_uuid = {1},
                                                              .sessiond_session_id = producers.size(),
                                                              .creation_time = 1});
        ask(RelayCommand::kCreateTraceChunk, wire::CreateTraceChunk{.chunk_id = 0, .creation_time = 1});
        const auto reply = wire::parse<wire::AddStreamReply>(
            ask(RelayCommand::kAddStream, wire::AddStream{.channel_name = "ch_0", .path = "ust", .trace_chunk_id = 0}));
        EXPECT_TRUE(reply && reply->handle != 0);
        return reply->handle;
    }

    void index(std::uint64_t handle, std::uint64_t number, std::uint32_t size = kSize) {
        const wire::SendIndex index{
            .stream_id = handle, .net_seq_num = number, .entry = {.packet_size = size * 8U, .content_size = size * 8U}};
        for (Producer& producer : producers) {
            if (session_of(handle) != producer.session) continue;
            const CommandOutcome outcome = run_command(producer, RelayCommand::kSendIndex, wire::encode(index, 13));
            EXPECT_FALSE(outcome.ends_connection);
        }
        poll();
    }

    void send(std::uint64_t handle, std::uint64_t number, std::uint32_t size = kSize, std::uint32_t offset = 0) {
        wire::Bytes datagram = wire::encode(
            wire::DatagramHeader{.stream_id = handle, .net_seq_num = number, .packet_size = size, .offset = offset});
        datagram.resize(datagram.size() + std::min<std::size_t>(size - offset, wire::kDatagramPiece));
        sender.send_to(asio::buffer(datagram), endpoint);
        poll();
    }
    // The receiver yields after each batch of datagrams.
    void poll() {
        for (int i = 0; i < 4; ++i) context.poll();
    }

    std::shared_ptr<StoredSession> session_of(std::uint64_t handle) { return relay.handles().session_of(handle); }
    std::uint64_t committed(std::uint64_t handle) {
        return session_of(handle)->locked(
            [&](SessionState& state) { return state.by_handle.at(handle)->stream->view().packets; });
    }
    std::uint64_t lost(std::uint64_t handle) {
        return session_of(handle)->locked(
            [&](SessionState& state) { return state.by_handle.at(handle)->stream->lost_packets(); });
    }

    static constexpr std::uint32_t kSize = 100;

    test::ScratchDirectory scratch;
    Relay relay{*ConfinedDirectory::open_root(scratch.path().string())};
    asio::io_context context;
    std::list<Producer> producers;
    udp::socket socket{context, udp::endpoint(asio::ip::address_v4::loopback(), 0)};
    udp::endpoint endpoint{socket.local_endpoint()};
    DatagramReceiver receiver{std::move(socket), relay};
    udp::socket sender{context};
};

TEST_F(DatagramReceiverTest, PacketIsStoredWhenItsIndexComes) {
    const std::uint64_t stream = start();
    send(stream, 0);
    EXPECT_EQ(committed(stream), 0U);
    index(stream, 0);
    EXPECT_EQ(committed(stream), 1U);
    index(stream, 1);
    send(stream, 1);
    EXPECT_EQ(committed(stream), 2U);
}

TEST_F(DatagramReceiverTest, FarNumbersCostNothing) {
    const std::uint64_t stream = start();
    for (std::uint64_t i = 0; i < 5'000; ++i) send(stream, 60'000 + i);
    send(stream, std::uint64_t{1} << 63);
    send(stream, wire::kNoPacket - 1);
    send(stream, wire::kNoPacket);
    for (std::uint64_t number = 0; number < 10; ++number) {
        send(stream, number);
        send(stream, number + 60'000);
        index(stream, number);
    }
    EXPECT_EQ(committed(stream), 10U);
    EXPECT_EQ(lost(stream), 0U);
}

TEST_F(DatagramReceiverTest, AnnouncementsOfLargePacketsCostOthersNothing) {
    const std::uint64_t attacked = start();
    const std::uint64_t also_attacked = start();
    const std::uint64_t other = start();
    for (std::uint64_t number = 0; number < 16; ++number)
        send(number % 2 == 0 ? attacked : also_attacked, 1 + number, wire::kMaxDatagramPacket);
    for (const std::uint64_t stream : {other, attacked, also_attacked}) {
        send(stream, 0);
        index(stream, 0);
        EXPECT_EQ(committed(stream), 1U);
    }
}

TEST_F(DatagramReceiverTest, UnknownHandlesCostNothing) {
    const std::uint64_t stream = start();
    for (std::uint64_t i = 0; i < 2'000; ++i) send(~i, 0);
    // A stream that is added later is known at once.
    const std::uint64_t another = start();
    for (const std::uint64_t handle : {stream, another}) {
        send(handle, 0);
        index(handle, 0);
        EXPECT_EQ(committed(handle), 1U);
    }
}

TEST_F(DatagramReceiverTest, StreamThatIsSentByConnectionTakesNoDatagrams) {
    const std::uint64_t stream = start();
    producers.back().can_send_datagrams = false;
    const auto reply =
        run_command(producers.back(), RelayCommand::kAddStream,
                    wire::encode(wire::AddStream{.channel_name = "ch_1", .path = "ust", .trace_chunk_id = 0}, 13));
    const std::uint64_t by_connection = wire::parse<wire::AddStreamReply>(reply.reply)->handle;
    send(by_connection, 0);
    index(by_connection, 0);
    EXPECT_EQ(committed(by_connection), 0U);
    EXPECT_EQ(committed(stream), 0U);
}

}  // namespace
}  // namespace leat::relay
