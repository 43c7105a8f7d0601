// A session on a relay, from the tracing side. The benchmark's programs push packets with it. It blocks, and a failure
// ends the program.
#pragma once

#include <string>
#include <vector>

#include "sockets.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::bench {

// A control connection. It sends requests and reads the replies in order.
class Control {
  public:
    explicit Control(std::uint16_t port) : socket_(connect_to(port)) {}

    template <class Reply, class Message>
    Reply ask(wire::RelayCommand command, const Message& message) {
        send(wire::encode_request(command, message));
        return receive<Reply>();
    }
    void send(const wire::Bytes& request) { send_all(socket_.get(), request, {}); }
    template <class Reply>
    Reply receive() {
        return parsed<Reply>(receive_bytes(wire::kSizeOf<Reply>));
    }
    wire::CreateSessionReply receive_session() {
        wire::Bytes bytes = receive_bytes(wire::kHeadSizeOf<wire::CreateSessionReply>);
        const wire::Bytes path = receive_bytes(std::to_integer<std::size_t>(bytes.back()));  // ours is short
        bytes.insert(bytes.end(), path.begin(), path.end());
        return parsed<wire::CreateSessionReply>(bytes);
    }
    void expect_ok(const char* what) {
        const auto code = receive<wire::CodeReply>().code;
        if (code != wire::RelayCode::kOk) refused(what, code);
    }
    template <class Message>
    void ask_ok(wire::RelayCommand command, const Message& message) {
        send(wire::encode_request(command, message));
        expect_ok(wire::name_of(command).c_str());
    }
    [[noreturn]] static void refused(const char* what, wire::RelayCode code) {
        std::fprintf(stderr, "%s: the relay answered %u\n", what, static_cast<unsigned>(code));
        std::exit(1);
    }

  private:
    wire::Bytes receive_bytes(std::size_t size) {
        wire::Bytes bytes(size);
        receive_all(socket_.get(), bytes);
        return bytes;
    }
    template <class Reply>
    static Reply parsed(const wire::Bytes& bytes) {
        auto reply = wire::parse<Reply>(bytes);
        if (!reply) {
            std::fprintf(stderr, "%s\n", reply.error().message.c_str());
            std::exit(1);
        }
        return *reply;
    }

    UniqueFd socket_;
};

// One session, with a control and a data connection, and streams whose packets have one size each.
class Producer {
  public:
    struct Parameters {
        std::uint16_t control = 0;
        std::uint16_t data = 0;
        std::uint32_t live_timer_us = 0;
        unsigned streams = 0;
        std::size_t packet_size = 0;
        std::uint64_t file_mib = 0;  // two files for each stream; 0: one that grows
    };

    Producer(const Parameters& parameters, unsigned number)
        : control_(parameters.control), packet_(parameters.packet_size, std::byte{0x5a}) {
        using Command = wire::RelayCommand;
        control_.ask<wire::Version>(Command::kVersion, wire::Version{});
        control_.ask<wire::ConfigurationReply>(Command::kGetConfiguration, wire::GetConfiguration{});
        create(parameters, number);
        control_.ask_ok(Command::kCreateTraceChunk, wire::CreateTraceChunk{.creation_time = 1});
        data_ = connect_to(parameters.data);
        for (unsigned stream = 0; stream < parameters.streams; ++stream)
            streams_.push_back({add_stream("channel_" + std::to_string(stream), parameters.file_mib), 0});
        const std::uint64_t metadata = add_stream("metadata", 0);
        control_.send(wire::encode_request(Command::kStreamsSent));
        control_.expect_ok("STREAMS_SENT");
        send_metadata(metadata);
    }

    [[nodiscard]] std::size_t stream_count() const { return streams_.size(); }

    // Sends the next packet of a stream, and its index.
    void push(std::size_t number, std::uint64_t begin_ns, std::uint64_t end_ns) {
        Stream& stream = streams_[number];
        const wire::Bytes header =
            wire::encode(wire::DataHeader{.stream_id = stream.handle,
                                          .net_seq_num = stream.packets,
                                          .data_size = static_cast<std::uint32_t>(packet_.size())});
        send_all(data_.get(), header, packet_);
        send({.stream_id = stream.handle,
              .net_seq_num = stream.packets,
              .entry = {.packet_size = packet_.size() * 8,
                        .content_size = packet_.size() * 8,
                        .timestamp_begin = begin_ns,
                        .timestamp_end = end_ns,
                        .stream_instance_id = number,
                        .packet_seq_num = stream.packets}});
        ++stream.packets;
    }

    // Announces that nothing older will come in a stream that has had a packet.
    void push_beacon(std::size_t number, std::uint64_t time_ns) {
        const Stream& stream = streams_[number];
        send({.stream_id = stream.handle,
              .net_seq_num = stream.packets - 1,
              .entry = {.timestamp_end = time_ns, .stream_instance_id = 0, .packet_seq_num = 0}});
    }

    void take_replies() {
        while (outstanding_ > 0) take_reply();
    }

    // Asks until the relay says that all is stored. `pause` is called between the questions.
    template <class Pause>
    void wait_until_stored(Pause pause) {
        for (const Stream& stream : streams_) {
            const wire::DataPending question{.stream_id = stream.handle, .last_net_seq_num = stream.packets - 1};
            while (control_.ask<wire::CodeReply>(wire::RelayCommand::kDataPending, question).code !=
                   wire::RelayCode::kNotPending)
                pause();
        }
    }

  private:
    // A producer does not wait for the acknowledgement of each index, but only so many may be outstanding.
    static constexpr unsigned kOutstanding = 16;
    // Nobody decodes the packets, so any metadata will do that declare their stream class: our relay shows none before.
    static constexpr char kMetadata[] =
        "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\nstream { id = 0; };\n";

    struct Stream {
        std::uint64_t handle;
        std::uint64_t packets;
    };

    void create(const Parameters& parameters, unsigned number) {
        wire::CreateSession request{.session_name = "bench" + std::to_string(number),
                                    .hostname = "bench",
                                    .live_timer_us = parameters.live_timer_us,
                                    .sessiond_session_id = number,
                                    .creation_time = 1};
        request.sessiond_uuid[0] = 1;
        control_.send(wire::encode_request(wire::RelayCommand::kCreateSession, request));
        const auto code = control_.receive_session().code;
        if (code != wire::RelayCode::kOk) Control::refused("CREATE_SESSION", code);
    }

    std::uint64_t add_stream(const std::string& channel, std::uint64_t file_mib) {
        const wire::AddStream request{.channel_name = channel,
                                      .path = "ust/uid/0/64-bit",
                                      .tracefile_size = file_mib << 20,
                                      .tracefile_count = file_mib != 0 ? 2U : 0U};
        const auto reply = control_.ask<wire::AddStreamReply>(wire::RelayCommand::kAddStream, request);
        if (reply.code != wire::RelayCode::kOk) Control::refused(("ADD_STREAM " + channel).c_str(), reply.code);
        return reply.handle;
    }

    void send_metadata(std::uint64_t handle) {
        constexpr std::uint32_t kSize = sizeof kMetadata - 1;
        wire::Bytes request = wire::encode(wire::ControlHeader{.data_size = wire::kSizeOf<wire::SendMetadata> + kSize,
                                                               .command = wire::RelayCommand::kSendMetadata});
        wire::append(request, wire::SendMetadata{.stream_id = handle});
        const auto text = std::as_bytes(std::span(kMetadata).first(kSize));
        request.insert(request.end(), text.begin(), text.end());
        control_.send(request);
    }

    void send(const wire::SendIndex& index) {
        if (outstanding_ == kOutstanding) take_reply();
        control_.send(wire::encode_request(wire::RelayCommand::kSendIndex, index));
        ++outstanding_;
    }
    void take_reply() {
        control_.expect_ok("SEND_INDEX");
        --outstanding_;
    }

    Control control_;
    UniqueFd data_{};
    std::vector<Stream> streams_{};
    wire::Bytes packet_;
    unsigned outstanding_ = 0;
};

}  // namespace leat::bench
