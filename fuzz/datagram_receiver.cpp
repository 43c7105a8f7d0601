// Datagrams from producers, from a network that loses, repeats and reorders them, and from anybody. The relay stores
// only data that indexes announce, and each index becomes a packet or a loss.
//
// Input: steps. Each has a producer, what it does, and the bytes.
#include "relay/ingest/datagram_receiver.hpp"

#include <array>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <deque>
#include <optional>

#include "scratch_relay.hpp"

namespace leat::fuzz::datagram_receiver {
namespace {

using asio::ip::udp;
using wire::RelayCommand;

constexpr std::size_t kProducers = 3;

// A session with one stream, whose data are sent as datagrams.
class DatagramProducer {
  public:
    DatagramProducer(ScratchRelay& relay, std::size_t number) : producer_(*relay), handle_(relay.next_handle()) {
        const auto ask = [&](RelayCommand command, const auto& message) {
            LEAT_CHECK(producer_.control(command, wire::encode(message)));
        };
        ask(RelayCommand::kVersion, wire::Version{});
        ask(RelayCommand::kGetConfiguration, wire::GetConfiguration{.query_flags = wire::kQueryDatagrams});
        ask(RelayCommand::kCreateSession, wire::CreateSession{.session_name = fmt::format("s{}", number),
                                                              .hostname = "host",
                                                              .sessiond_uuid = {1},
                                                              .sessiond_session_id = number,
                                                              .creation_time = 1});
        ask(RelayCommand::kCreateTraceChunk, wire::CreateTraceChunk{.chunk_id = 0, .creation_time = 1});
        ask(RelayCommand::kAddStream, wire::AddStream{.channel_name = "ch_0", .path = "ust", .trace_chunk_id = 0});
        entry_ = producer_.session()->locked([&](relay::SessionState& state) { return state.by_handle.at(handle_); });
    }

    [[nodiscard]] std::uint64_t handle() const { return handle_; }
    [[nodiscard]] std::uint64_t next() const { return next_; }
    std::uint64_t take_number() { return next_++; }

    void index(std::uint32_t size) {
        const std::uint64_t bits = std::uint64_t{size} * 8;
        const wire::SendIndex message{
            .stream_id = handle_, .net_seq_num = indexes_++, .entry = {.packet_size = bits, .content_size = bits}};
        LEAT_CHECK(producer_.control(RelayCommand::kSendIndex, wire::encode(message)));
    }
    [[nodiscard]] std::uint64_t indexes() const { return indexes_; }

    // Ends the producer: nothing more will come.
    void end() {
        producer_.end_data();
        const std::uint64_t decided = entry_->stream->view().packets + entry_->stream->lost_packets();
        LEAT_CHECK(decided >= indexes_);
    }

  private:
    ScratchProducer producer_;
    std::uint64_t handle_;
    std::shared_ptr<relay::SessionStream> entry_;
    std::uint64_t next_ = 0;     // number of a packet
    std::uint64_t indexes_ = 0;  // sent
};

class Network {
  public:
    explicit Network(FuzzInput input) : input_(input) {
        asio::co_spawn(context_, receiver_.receive(), asio::detached);
        sender_.open(udp::v4());
    }
    ~Network() {
        for (auto& producer : producers_)
            if (producer) producer->end();
        receiver_.close();
        context_.run();
    }
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    void play() {
        while (!input_.is_empty()) step();
        for (int i = 0; i < 4; ++i) context_.poll();
    }

  private:
    void step() {
        const auto what = input_.take<std::uint8_t>();
        DatagramProducer& producer = producer_of(what / 8 % kProducers);
        switch (what % 8) {
            case 0:
            case 1:
                send_packet(producer, input_.take<std::uint16_t>());
                break;
            case 2:
            case 3:
                // Indexes may come before their data as well as after them.
                if (producer.indexes() < producer.next() + 4) producer.index(size_of(producer.indexes()));
                break;
            case 4:
                forge(producer);
                break;
            case 5:
                raw();
                break;
            case 6:
                repeat(input_.take<std::uint8_t>());
                break;
            default:
                for (int i = 0; i < 4; ++i) context_.poll();
        }
        if (what >= 128)
            for (int i = 0; i < 2; ++i) context_.poll();
    }

    // A producer begins when it is first named.
    DatagramProducer& producer_of(std::size_t number) {
        if (!producers_.at(number)) producers_.at(number).emplace(relay_, number);
        return *producers_.at(number);
    }

    // Index and data state the same size, whichever comes first.
    static std::uint32_t size_of(std::uint64_t number) {
        return static_cast<std::uint32_t>(1 + number * 977 % (3 * wire::kDatagramPiece));
    }

    // The bits of `order` say which pieces are lost, and whether the pieces come in reverse order.
    void send_packet(DatagramProducer& producer, std::uint16_t order) {
        const std::uint64_t number = producer.take_number();
        const std::uint32_t size = size_of(number);
        std::deque<wire::Bytes> pieces;
        for (std::uint32_t at = 0; at < size; at += wire::kDatagramPiece) {
            wire::Bytes datagram = wire::encode(wire::DatagramHeader{
                .stream_id = producer.handle(), .net_seq_num = number, .packet_size = size, .offset = at});
            datagram.resize(datagram.size() + std::min<std::size_t>(size - at, wire::kDatagramPiece),
                            static_cast<std::byte>(number));
            if ((order & 1U) != 0)
                pieces.push_front(std::move(datagram));
            else
                pieces.push_back(std::move(datagram));
        }
        for (const wire::Bytes& piece : pieces)
            if (((order >>= 1U) & 7U) != 7U) transmit(piece);
    }

    // Sends a datagram in a producer's name, with any number.
    void forge(const DatagramProducer& producer) {
        const auto lie = input_.take<std::uint8_t>();
        const std::array<std::uint64_t, 6> numbers{
            producer.next(),          producer.next() + input_.take<std::uint8_t>(),
            producer.next() + 60'000, wire::kNoPacket,
            wire::kNoPacket - 1,      0};
        wire::DatagramHeader header{.stream_id = producer.handle(), .net_seq_num = numbers.at(lie % numbers.size())};
        header.packet_size = lie % 5 == 0 ? input_.take<std::uint32_t>() : size_of(header.net_seq_num);
        header.offset = lie % 7 == 0 ? input_.take<std::uint32_t>() : input_.take<std::uint8_t>() % 4 * 1400U;
        if (lie % 11 == 0) header.magic = input_.take<std::uint32_t>();
        wire::Bytes datagram = wire::encode(header);
        datagram.resize(datagram.size() + input_.take<std::uint16_t>() % (wire::kDatagramPiece + 8), std::byte{0xee});
        transmit(datagram);
    }
    void raw() {
        const UntrustedBytes bytes = input_.take_bytes(input_.take<std::uint8_t>());
        transmit({bytes.begin(), bytes.end()});
    }
    void repeat(std::uint8_t which) {
        if (!sent_.empty()) transmit(wire::Bytes(sent_[which % sent_.size()]));
    }

    void transmit(const wire::Bytes& datagram) {
        asio::error_code ignored;
        sender_.send_to(asio::buffer(datagram), endpoint_, 0, ignored);
        sent_.push_back(datagram);
        if (sent_.size() > 32) sent_.pop_front();
    }

    FuzzInput input_;
    ScratchRelay relay_;
    asio::io_context context_;
    std::array<std::optional<DatagramProducer>, kProducers> producers_;
    udp::socket socket_{context_, udp::endpoint(asio::ip::address_v4::loopback(), 0)};
    udp::endpoint endpoint_{socket_.local_endpoint()};
    relay::DatagramReceiver receiver_{std::move(socket_), *relay_};
    udp::socket sender_{context_};
    std::deque<wire::Bytes> sent_;
};

}  // namespace

LEAT_FUZZ_TARGET(datagram_receiver) {
    Network(FuzzInput(data, size)).play();
    return 0;
}

}  // namespace leat::fuzz::datagram_receiver
