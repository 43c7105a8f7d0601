// A relay may answer a recorder anything, and may stop reading at any time. The recorder goes on, or ends the
// connection and says why in one line. It never takes something for stored that it has not sent, and it sends its
// packets unchanged.
//
// Input: the kind of session; then steps of recorder and relay in turn.
#include "output/relay_connection.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <map>

#include "base/check.hpp"
#include "ctf/record/packet_header.hpp"
#include "fuzz_input.hpp"

namespace leat::fuzz::relay_connection {
namespace {

using output::RelayConnection;
using wire::RelayCommand;

// Two rings of the first channel, and one of the second.
constexpr std::array kStreams{consumer::StreamId{0, 0}, consumer::StreamId{0, 1}, consumer::StreamId{1, 0}};
constexpr int kPatience = 1'000;  // ms; for the system, between two of our own sockets

std::uint16_t bind_to(const UniqueFd& socket, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT(*-reinterpret-cast)
    LEAT_CHECK(::bind(socket.get(), generic, size) == 0 && ::getsockname(socket.get(), generic, &size) == 0);
    return ntohs(address.sin_port);
}

// The port that recorders connect to. All runs share it.
class Listener {
  public:
    Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), port_(bind_to(socket_, 0)) {
        LEAT_CHECK(::listen(socket_.get(), 16) == 0);
    }
    [[nodiscard]] std::uint16_t port() const { return port_; }

    UniqueFd accept(int patience = kPatience) {
        pollfd waiting{socket_.get(), POLLIN, 0};
        if (::poll(&waiting, 1, patience) != 1) return {};
        UniqueFd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        // Closing must leave nothing behind, because there are many runs and few ports.
        const linger at_once{1, 0};
        ::setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        return peer;
    }
    // Drops connections that no run has taken.
    void forget() {
        while (accept(0).is_open()) {
        }
    }

  private:
    UniqueFd socket_;
    std::uint16_t port_;
};

struct Ports {
    Listener control{};
    Listener data{};
    UniqueFd datagrams{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    Ports() { bind_to(datagrams, data.port()); }
};

Ports& ports() {
    static Ports ports;
    return ports;
}

// Reads all that is there.
void drain(const UniqueFd& socket, wire::Bytes& into) {
    static std::array<std::byte, 65536> piece;
    for (ssize_t count = 0; (count = ::recv(socket.get(), piece.data(), piece.size(), MSG_DONTWAIT)) > 0;)
        into.insert(into.end(), piece.begin(), piece.begin() + count);
}

const wire::Bytes& record_bytes() {
    static const wire::Bytes bytes = [] {
        wire::Bytes made;
        for (std::size_t i = 0; i < 65536; ++i) made.push_back(static_cast<std::byte>(i % 251));
        return made;
    }();
    return bytes;
}

void check_line(const std::string& message) {
    LEAT_CHECK(!message.empty());
    for (const char c : message) LEAT_CHECK(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

class Game {
  public:
    explicit Game(FuzzInput input) : input_(input) {
        const auto how = input_.take<std::uint8_t>();
        uses_datagrams_ = how % 4 == 3;
        const net::RelayAddress address{"127.0.0.1", ports().control.port(), ports().data.port(), uses_datagrams_};
        const output::SessionDescription session{.name = "name",
                                                 .hostname = "host",
                                                 .trace_path = "ust/uid/7/64-bit",
                                                 .channels = {{"channel0"}, {"other"}},
                                                 .live_timer_us = how & 0x80U ? 0U : 100'000U};
        sockaddr_in loopback{};
        loopback.sin_family = AF_INET;
        loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const net::HostAddress host(*reinterpret_cast<sockaddr*>(&loopback));  // NOLINT(*-reinterpret-cast)
        now_ = RelayConnection::Clock::now();
        auto opened = RelayConnection::open(host, address, session, 1, unstored_);
        LEAT_CHECK(opened.has_value());
        recorder_ = *std::move(opened);
        control_ = ports().control.accept();
        LEAT_CHECK(control_.is_open());
    }

    ~Game() {
        ports().control.forget();
        ports().data.forget();
    }
    Game(const Game&) = delete;
    Game& operator=(const Game&) = delete;

    void play() {
        run();
        while (!input_.is_empty() && !has_ended_) step();
        if (!has_ended_) {
            recorder_->close();
            run();
        }
        check_data();
    }

  private:
    void step() {
        const auto what = input_.take<std::uint8_t>();
        const std::uint64_t many = what / 16 + 1;
        switch (what % 16) {
            case 0:
            case 1:
                for (std::uint64_t i = 0; i < many; ++i) answer(10);
                break;
            case 2:
                answer(input_.take<std::uint8_t>());
                break;
            case 3:
                say(input_.take_bytes(many * 4));
                break;
            case 4:
                many > 8 ? answer_in_another_shape(many % 8) : answer_anything();
                break;
            case 5:
                announce(many);
                break;
            case 6:
                recorder_->send_metadata(std::string(many * 100, 'm'));
                break;
            case 7:
            case 8:
                send_packet(many % kStreams.size(), input_.take<std::uint16_t>());
                break;
            case 9:
                if (announced_[many % kStreams.size()])
                    recorder_->send_beacon(kStreams[many % kStreams.size()], input_.take<std::uint32_t>());
                break;
            case 10:
                now_ += std::chrono::milliseconds(many * many);
                break;
            case 11:
                accept_data();
                drain(data_, data_bytes_);
                break;
            case 12:
                cut(many);
                break;
            case 13:
                many > 8 ? answer_twice() : answer_in_halves();
                break;
            case 14:
                if (many > 12) now_ += std::chrono::seconds(4);
                break;
            default:
                if (many > 14) close();
        }
        run();
    }

    // Stops at the first error, as RelayOutput does.
    void run() {
        if (has_ended_) return;
        const auto done = recorder_->run(now_);
        if (!done) {
            check_line(done.error().message);
            has_ended_ = true;
        }
        for (std::size_t i = 0; i < kStreams.size(); ++i) {
            const std::uint64_t stored = unstored_[kStreams[i]].stored();
            LEAT_CHECK(stored >= stored_[i] && stored <= sent_[i]);
            stored_[i] = stored;
        }
        LEAT_CHECK(recorder_->packets_sent() <= packets_.size());
        read_requests();
    }

    // Steps of the recorder.
    void announce(std::uint64_t count) {
        std::vector<consumer::StreamId> ids;
        for (std::size_t i = 0; i < std::min<std::size_t>(count, kStreams.size()); ++i)
            if (!std::exchange(announced_[i], true)) ids.push_back(kStreams[i]);
        if (!ids.empty() && !has_closed_) recorder_->announce(ids);
    }
    void send_packet(std::size_t stream, std::size_t size) {
        if (!announced_[stream] || has_closed_) return;
        const std::uint64_t bits = (ctf::kPacketHeaderSize + size) * 8;
        const consumer::StreamId id = kStreams[stream];
        packets_.push_back({.stream = id,
                            .header = {.stream_instance_id = id.ring,
                                       .content_size = bits,
                                       .packet_size = bits,
                                       .packet_seq_num = sent_[stream]++},
                            .records = UntrustedBytes(record_bytes()).first(size),
                            .events = 1});
        const auto& packet = packets_.back();
        recorder_->send_packet(unstored_[id].add(packet.header.packet_seq_num, packet));
    }
    void close() {
        has_closed_ = true;
        recorder_->close();
    }

    // Steps of the relay.
    void read_requests() {
        if (!control_.is_open()) return;
        drain(control_, control_bytes_);
        while (control_bytes_.size() >= wire::kSizeOf<wire::ControlHeader>) {
            const auto header = *wire::parse<wire::ControlHeader>(
                UntrustedBytes(control_bytes_).first(wire::kSizeOf<wire::ControlHeader>));
            const std::size_t size = wire::kSizeOf<wire::ControlHeader> + header.data_size;
            LEAT_CHECK(header.data_size < 1U << 20);
            if (control_bytes_.size() < size) return;
            const auto command = header.command;
            if (command != RelayCommand::kSendMetadata) requests_.push_back(command);
            control_bytes_.erase(control_bytes_.begin(), control_bytes_.begin() + static_cast<std::ptrdiff_t>(size));
        }
    }
    void say(UntrustedBytes bytes) {
        if (control_.is_open()) (void)!::send(control_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    // The answer of a good relay, except for the code.
    [[nodiscard]] wire::Bytes good_answer(RelayCommand command, std::uint32_t number) {
        const wire::RelayCode code{number};
        switch (command) {
            case RelayCommand::kVersion:
                return wire::encode(
                    wire::Version{.minor = code == wire::RelayCode::kOk ? wire::kProtocolMinor : number});
            case RelayCommand::kGetConfiguration:
                return wire::encode(
                    wire::ConfigurationReply{code, uses_datagrams_ ? wire::kQueryDatagrams : std::uint64_t{0}});
            case RelayCommand::kCreateSession:
                return wire::encode(wire::CreateSessionReply{1, code, "host/session"});
            case RelayCommand::kAddStream:
                return wire::encode(wire::AddStreamReply{++handles_, code});
            case RelayCommand::kCloseTraceChunk:
                return wire::encode(wire::CloseTraceChunkReply{code, "host/session"});
            case RelayCommand::kDataPending:
                return wire::encode(
                    wire::CodeReply{code == wire::RelayCode::kOk ? wire::RelayCode::kNotPending : code});
            default:
                return wire::encode(wire::CodeReply{code});
        }
    }
    [[nodiscard]] wire::Bytes next_answer(std::uint32_t code) {
        if (requests_.empty()) return {};
        const RelayCommand command = requests_.front();
        requests_.pop_front();
        return good_answer(command, code);
    }
    void answer(std::uint32_t code) {
        say(next_answer(code));
        accept_data();
        run();
    }
    // Answers with any bytes of the right size.
    void answer_anything() {
        wire::Bytes bytes = next_answer(10);
        const UntrustedBytes lies = input_.take_bytes(bytes.size());
        std::ranges::copy(lies, bytes.begin());
        say(bytes);
    }
    void answer_in_halves() {
        const wire::Bytes bytes = next_answer(10);
        say(UntrustedBytes(bytes).first(bytes.size() / 2));
        run();
        say(UntrustedBytes(bytes).subspan(bytes.size() / 2));
    }
    void answer_twice() {
        const wire::Bytes bytes = next_answer(10);
        say(bytes);
        say(bytes);
    }
    // That of another version: a field more, or less.
    void answer_in_another_shape(std::uint64_t where) {
        wire::Bytes bytes = next_answer(10);
        constexpr std::ptrdiff_t kField = 4;
        const auto at = static_cast<std::ptrdiff_t>(where * bytes.size() / 8);
        if (where % 2 == 0)
            bytes.insert(bytes.begin() + at, kField, std::byte{0});
        else if (std::ssize(bytes) >= at + kField)
            bytes.erase(bytes.begin() + at, bytes.begin() + at + kField);
        say(bytes);
    }
    void accept_data() {
        if (data_.is_open() || uses_datagrams_ || !recorder_->is_ready()) return;
        if (recorder_->wanted()[1].fd >= 0 && !has_data_) {
            data_ = ports().data.accept();
            has_data_ = data_.is_open();
        }
    }
    void cut(std::uint64_t which) {
        if (which % 2 == 0) control_ = UniqueFd();
        if (which % 4 != 0) data_ = UniqueFd();
    }

    // The bytes on the data connection must be the given packets in their order.
    void check_data() {
        if (data_.is_open()) drain(data_, data_bytes_);
        if (uses_datagrams_) {
            wire::Bytes ignored;
            drain(ports().datagrams, ignored);
        }
        auto packet = packets_.begin();
        for (UntrustedBytes rest(data_bytes_); rest.size() >= wire::kSizeOf<wire::DataHeader>; ++packet) {
            LEAT_CHECK(packet != packets_.end());
            const auto header = *wire::parse<wire::DataHeader>(rest.first(wire::kSizeOf<wire::DataHeader>));
            LEAT_CHECK(header.net_seq_num == packet->header.packet_seq_num);
            LEAT_CHECK(header.data_size == packet->header.packet_size / 8);
            rest = rest.subspan(wire::kSizeOf<wire::DataHeader>);
            const UntrustedBytes got = rest.first(std::min<std::size_t>(header.data_size, rest.size()));
            if (got.size() > ctf::kPacketHeaderSize) {
                const UntrustedBytes records = got.subspan(ctf::kPacketHeaderSize);
                LEAT_CHECK(std::ranges::equal(records, packet->records.first(records.size())));
            }
            rest = rest.subspan(got.size());
        }
    }

    FuzzInput input_;
    bool uses_datagrams_ = false;
    RelayConnection::Clock::time_point now_;
    std::deque<consumer::Packet> packets_;  // outlive the recorder, which sends from them
    output::UnstoredPackets unstored_;
    std::unique_ptr<RelayConnection> recorder_;
    UniqueFd control_;
    UniqueFd data_;
    bool has_data_ = false;
    bool has_ended_ = false;
    bool has_closed_ = false;
    wire::Bytes control_bytes_;
    wire::Bytes data_bytes_;
    std::deque<RelayCommand> requests_;
    std::uint64_t handles_ = 0;
    std::array<bool, kStreams.size()> announced_{};
    std::array<std::uint64_t, kStreams.size()> sent_{};
    std::array<std::uint64_t, kStreams.size()> stored_{};
};

}  // namespace

LEAT_FUZZ_TARGET(relay_connection) {
    Game(FuzzInput(data, size)).play();
    return 0;
}

}  // namespace leat::fuzz::relay_connection
