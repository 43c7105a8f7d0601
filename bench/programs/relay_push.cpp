// Pushes packets of 128 KiB into a relay, as fast as it takes them: several sessions at once, a thread for each.
//
//     bench-relay-push CONTROL DATA LIVE_TIMER SESSIONS STREAMS WARM_UP_MIB MIB FILE_MIB
//
// CONTROL 0: only bytes, for bench-relay-floor. First WARM_UP_MIB for each session; then it says "ready" and waits for
// a line; then MIB for each session, and it prints the seconds until the relay says that all is stored.
#include <barrier>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "sockets.hpp"
#include "wire/relay_messages.hpp"

namespace leat::bench {
namespace {

constexpr std::size_t kPacket = std::size_t{128} << 10;
// A producer does not wait for each index to be acknowledged, but for some before.
constexpr unsigned kOutstanding = 16;

struct Parameters {
    std::uint16_t control;
    std::uint16_t data;
    std::uint32_t live_timer_us;
    unsigned sessions;
    unsigned streams;
    std::uint64_t warm_up_mib;
    std::uint64_t mib;
    std::uint64_t file_mib;
};

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
        return parsed<Reply>(receive_bytes(wire::size_of<Reply>()));
    }
    wire::CreateSessionReply receive_session() {
        wire::Bytes bytes = receive_bytes(wire::kCreateSessionReplyHead);
        const wire::Bytes path = receive_bytes(std::to_integer<std::size_t>(bytes.back()));  // ours is short
        bytes.insert(bytes.end(), path.begin(), path.end());
        return parsed<wire::CreateSessionReply>(bytes);
    }
    void expect_ok() {
        if (receive<wire::CodeReply>().code != static_cast<std::uint32_t>(wire::RelayCode::kOk)) die("refused");
    }
    template <class Message>
    void ask_ok(wire::RelayCommand command, const Message& message) {
        send(wire::encode_request(command, message));
        expect_ok();
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
        if (!reply) die(reply.error().message.c_str());
        return *reply;
    }

    UniqueFd socket_;
};

// Nothing decodes the packets: any metadata will do.
constexpr char kMetadata[] = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\n";

// One session of a relay.
class Session {
  public:
    Session(const Parameters& parameters, unsigned number) : control_(parameters.control) {
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
        control_.expect_ok();
        send_metadata(metadata);
    }

    void push(std::uint64_t packets) {
        for (std::uint64_t i = 0; i < packets; ++i) {
            Stream& stream = streams_[i % streams_.size()];
            const wire::Bytes header = wire::encode(
                wire::DataHeader{.stream_id = stream.handle, .net_seq_num = stream.packets, .data_size = kPacket});
            send_all(data_.get(), header, packet_);
            send_index(stream);
            ++stream.packets;
        }
        while (outstanding_ > 0) take_reply();
    }

    void wait_until_stored() {
        for (const Stream& stream : streams_) {
            const wire::DataPending question{.stream_id = stream.handle, .last_net_seq_num = stream.packets - 1};
            while (control_.ask<wire::CodeReply>(wire::RelayCommand::kDataPending, question).code != 0)
                std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }

  private:
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
        if (control_.receive_session().code != static_cast<std::uint32_t>(wire::RelayCode::kOk)) die("CREATE_SESSION");
    }

    std::uint64_t add_stream(const std::string& channel, std::uint64_t file_mib) {
        const wire::AddStream request{.channel_name = channel,
                                      .path = "ust/uid/0/64-bit",
                                      .tracefile_size = file_mib << 20,
                                      .tracefile_count = file_mib != 0 ? 2U : 0U};
        return control_.ask<wire::AddStreamReply>(wire::RelayCommand::kAddStream, request).handle;
    }

    void send_metadata(std::uint64_t handle) {
        constexpr std::uint32_t kSize = sizeof kMetadata - 1;
        wire::Bytes request =
            wire::encode(wire::ControlHeader{.data_size = wire::kSendMetadataSize + kSize,
                                             .command = static_cast<std::uint32_t>(wire::RelayCommand::kSendMetadata)});
        wire::append(request, wire::SendMetadata{.stream_id = handle});
        const auto text = std::as_bytes(std::span(kMetadata).first(kSize));
        request.insert(request.end(), text.begin(), text.end());
        control_.send(request);
    }

    void send_index(const Stream& stream) {
        if (outstanding_ == kOutstanding) take_reply();
        control_.send(wire::encode_request(wire::RelayCommand::kSendIndex,
                                           wire::SendIndex{.stream_id = stream.handle,
                                                           .net_seq_num = stream.packets,
                                                           .packet_size = kPacket * 8,
                                                           .content_size = kPacket * 8,
                                                           .timestamp_begin = 10 * stream.packets + 1,
                                                           .timestamp_end = 10 * stream.packets + 9,
                                                           .stream_instance_id = stream.handle,
                                                           .packet_seq_num = stream.packets}));
        ++outstanding_;
    }
    void take_reply() {
        control_.expect_ok();
        --outstanding_;
    }

    Control control_;
    UniqueFd data_{};
    std::vector<Stream> streams_{};
    wire::Bytes packet_ = wire::Bytes(kPacket, std::byte{0x5a});
    unsigned outstanding_ = 0;
};

// The same bytes for a program that looks at none of them.
class Floor {
  public:
    explicit Floor(const Parameters& parameters) : data_(connect_to(parameters.data)) {}

    void push(std::uint64_t packets) {
        const wire::Bytes header = wire::encode(wire::DataHeader{});
        for (std::uint64_t i = 0; i < packets; ++i) send_all(data_.get(), header, packet_);
    }
    void wait_until_stored() {
        ::shutdown(data_.get(), SHUT_WR);
        std::byte done{};
        receive_all(data_.get(), std::span(&done, 1));
    }

  private:
    UniqueFd data_;
    wire::Bytes packet_ = wire::Bytes(kPacket, std::byte{0x5a});
};

template <class Target>
void run(Target target, const Parameters& parameters, std::barrier<>& barrier) {
    constexpr std::uint64_t kPacketsInMib = (std::uint64_t{1} << 20) / kPacket;
    target.push(parameters.warm_up_mib * kPacketsInMib);
    barrier.arrive_and_wait();  // all are warm
    barrier.arrive_and_wait();  // go
    target.push(parameters.mib * kPacketsInMib);
    target.wait_until_stored();
    barrier.arrive_and_wait();  // all is stored
    barrier.arrive_and_wait();  // and has been looked at
}

void push(const Parameters& parameters) {
    std::barrier<> barrier(parameters.sessions + 1);
    std::vector<std::jthread> threads;
    for (unsigned number = 0; number < parameters.sessions; ++number) {
        threads.emplace_back([&parameters, &barrier, number] {
            if (parameters.control == 0)
                run(Floor(parameters), parameters, barrier);
            else
                run(Session(parameters, number), parameters, barrier);
        });
    }
    const auto wait_for_line = [] {
        while (std::getchar() != '\n') {
        }
    };
    barrier.arrive_and_wait();
    std::puts("ready");
    std::fflush(stdout);
    wait_for_line();
    const auto begin = std::chrono::steady_clock::now();
    barrier.arrive_and_wait();
    barrier.arrive_and_wait();
    const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - begin;
    std::printf("%.6f\n", duration.count());
    std::fflush(stdout);
    wait_for_line();
    barrier.arrive_and_wait();
}

}  // namespace
}  // namespace leat::bench

int main(int argc, char** argv) {
    if (argc != 9) {
        std::fprintf(stderr,
                     "usage: bench-relay-push CONTROL DATA LIVE_TIMER SESSIONS STREAMS WARM_UP_MIB MIB FILE_MIB\n");
        return 2;
    }
    std::array<std::uint64_t, 8> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::strtoull(argv[i + 1], nullptr, 10);
    leat::bench::push({.control = static_cast<std::uint16_t>(numbers[0]),
                       .data = static_cast<std::uint16_t>(numbers[1]),
                       .live_timer_us = static_cast<std::uint32_t>(numbers[2]),
                       .sessions = static_cast<unsigned>(numbers[3]),
                       .streams = static_cast<unsigned>(numbers[4]),
                       .warm_up_mib = numbers[5],
                       .mib = numbers[6],
                       .file_mib = numbers[7]});
}
