// A producer that calls the relay's commands without a network. Its data comes whole.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "relay/ingest/control_commands.hpp"
#include "support/scratch_directory.hpp"

namespace leat::test {

class LocalProducer {
  public:
    explicit LocalProducer(relay::Relay& relay, std::uint32_t minor = wire::kProtocolMinor) {
        producer_.relay = &relay;
        producer_.principal = {"127.0.0.1"};
        run(wire::RelayCommand::kVersion, wire::Version{.minor = minor});
    }
    // Begins a live session with a chunk. publish() publishes its metadata stream and its data streams.
    void begin_session() {
        run(wire::RelayCommand::kCreateSession, wire::CreateSession{.session_name = "session",
                                                                    .hostname = "host",
                                                                    .live_timer_us = 1,
                                                                    .sessiond_uuid = {1},
                                                                    .creation_time = 1'600'000'000});
        run(wire::RelayCommand::kCreateTraceChunk, wire::CreateTraceChunk{.chunk_id = 0});
    }

    template <class Message>
    relay::CommandOutcome run(wire::RelayCommand command, const Message& message) {
        wire::Bytes bytes;
        wire::append(bytes, message, producer_.minor.value_or(0));
        return relay::run_command(producer_, command, bytes);
    }
    // Returns the stream's handle; 0 if it was refused.
    std::uint64_t add_stream(const std::string& channel_name) {
        const auto outcome = run(wire::RelayCommand::kAddStream, wire::AddStream{channel_name, "ust"});
        return wire::parse<wire::AddStreamReply>(outcome.reply)->handle;
    }
    void publish() { (void)relay::run_command(producer_, wire::RelayCommand::kStreamsSent, {}); }

    void send_metadata(std::uint64_t handle, std::string_view text) {
        const auto trace = session().locked([&](const auto& state) { return state.metadata.at(handle); });
        EXPECT_TRUE(trace->metadata->write(std::as_bytes(std::span(text))));
    }
    void end_metadata_message(std::uint64_t handle) {
        const auto trace = session().locked([&](const auto& state) { return state.metadata.at(handle); });
        EXPECT_TRUE(trace->metadata->end_message());
    }
    void send_data(std::uint64_t handle, std::uint64_t number, std::string_view text) {
        EXPECT_TRUE(stream(handle).store_packet(number, std::as_bytes(std::span(text)), now()));
    }
    // Sends an index. It is shown at once, with all that came before it.
    void send_index(std::uint64_t handle, std::uint64_t number, std::size_t bytes, std::uint64_t end = 0) {
        run(wire::RelayCommand::kSendIndex, wire::SendIndex{.stream_id = handle,
                                                            .net_seq_num = number,
                                                            .entry = {.packet_size = 8 * bytes,
                                                                      .content_size = 8 * bytes,
                                                                      .timestamp_begin = end,
                                                                      .timestamp_end = end,
                                                                      .stream_instance_id = 0,
                                                                      .packet_seq_num = number}});
        show();
    }
    void send_packet(std::uint64_t handle, std::uint64_t number, std::string_view text, std::uint64_t end = 0) {
        send_data(handle, number, text);
        send_index(handle, number, text.size(), end);
    }
    void close_stream(std::uint64_t handle) {
        run(wire::RelayCommand::kCloseStream, wire::CloseStream{.stream_id = handle});
        show();
    }
    // Does what the connection does before it replies.
    void show() {
        while (!producer_.changes.is_empty()) EXPECT_TRUE(producer_.changes.flush(session(), now()));
        session().note_change();
    }

    [[nodiscard]] relay::Producer& producer() { return producer_; }
    [[nodiscard]] relay::StoredSession& session() { return *producer_.session; }
    relay::DataStream& stream(std::uint64_t handle) {
        return *session().locked([&](const auto& state) { return state.by_handle.at(handle); })->stream;
    }

  private:
    static relay::Time now() { return std::chrono::steady_clock::now(); }

    relay::Producer producer_;
};

}  // namespace leat::test
