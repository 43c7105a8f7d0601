// A relay in this process that does what a test tells it, and keeps what it receives.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/unique_fd.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::test {

class FakeRelay {
  public:
    struct Request {
        wire::RelayCommand command;
        wire::Bytes payload;
    };
    struct Data {
        wire::DataHeader header;
        wire::Bytes bytes;
    };
    // Cuts one connection or both after so many bytes since the last cut. The bytes of all connections count.
    struct Cut {
        std::size_t after;
        bool is_of_control;
        bool is_of_data;
    };
    // What the relay does besides answering, or instead.
    struct Script {
        std::optional<std::size_t> cut_at{};  // the connections, instead of answering this request, counted from 0
        std::optional<wire::RelayCommand> refuse{};
        bool is_slow = false;  // replies go out byte by byte
        bool takes_datagrams = false;
        std::vector<Cut> cuts{};
        std::uint32_t minor = wire::kProtocolMinor;  // of the protocol that it speaks
        // In this part of the session, counted from 1, the relay answers the metadata's ADD_STREAM and all later
        // requests only when release() is called.
        std::size_t hold_part = 0;
        bool holds_pending = false;  // the same from the first DATA_PENDING on
        std::size_t pending = 0;     // so many DATA_PENDING are answered "something has not come"
        bool allows_clear = true;
        bool refuses_always = false;  // what it refuses, and not only once
    };

    FakeRelay() : FakeRelay(Script{}) {}
    explicit FakeRelay(Script script) : script_(script) {
        control_port_ = listen(control_listener_);
        listen_for_data();
        stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
        thread_ = std::thread([this] { serve(); });
    }
    ~FakeRelay() {
        ::eventfd_write(stop_.get(), 1);
        thread_.join();
    }
    FakeRelay(const FakeRelay&) = delete;
    FakeRelay& operator=(const FakeRelay&) = delete;

    [[nodiscard]] std::uint16_t control_port() const { return control_port_; }
    [[nodiscard]] std::uint16_t data_port() const { return data_port_; }

    std::vector<Request> requests() {
        const std::scoped_lock lock(mutex_);
        return requests_;
    }
    std::vector<Data> data() {
        const std::scoped_lock lock(mutex_);
        return data_;
    }

    bool is_holding() {
        const std::scoped_lock lock(mutex_);
        return is_held_;
    }
    void release() {
        const std::scoped_lock lock(mutex_);
        is_held_ = false;
        script_.hold_part = 0;
        script_.holds_pending = false;
        send(std::exchange(held_, {}));
    }

  private:
    static std::uint16_t listen(UniqueFd& listener) {
        listener = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const std::uint16_t port = bind(listener, 0);
        EXPECT_NE(port, 0);
        EXPECT_EQ(::listen(listener.get(), 5), 0);
        return port;
    }

    // By both kinds of socket. The port of one kind may be somebody's of the other.
    void listen_for_data() {
        std::vector<UniqueFd> tried;  // they stay ours, or the kernel might choose them again
        for (;;) {
            data_port_ = listen(data_listener_);
            datagrams_ = UniqueFd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
            if (bind(datagrams_, data_port_) != 0) return;
            ASSERT_EQ(errno, EADDRINUSE);
            tried.push_back(std::move(data_listener_));
        }
    }

    // Port 0 stands for any free one. Returns which it is; 0: none.
    static std::uint16_t bind(const UniqueFd& socket, std::uint16_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port);
        socklen_t size = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT(*-reinterpret-cast)
        if (::bind(socket.get(), generic, size) != 0) return 0;
        EXPECT_EQ(::getsockname(socket.get(), generic, &size), 0);
        return ntohs(address.sin_port);
    }

    void serve() {
        for (;;) {
            std::array fds{pollfd{stop_.get(), POLLIN, 0},          pollfd{control_listener_.get(), POLLIN, 0},
                           pollfd{data_listener_.get(), POLLIN, 0}, pollfd{control_.get(), POLLIN, 0},
                           pollfd{data_socket_.get(), POLLIN, 0},   pollfd{datagrams_.get(), POLLIN, 0}};
            ::poll(fds.data(), fds.size(), -1);
            if (fds[0].revents != 0) return;
            if (fds[1].revents != 0) accept(control_listener_, control_, control_input_);
            if (fds[2].revents != 0) accept(data_listener_, data_socket_, data_input_);
            const std::scoped_lock lock(mutex_);
            // Data is read first, so that questions about it have only one answer. What was said of a connection is not
            // said of the one that has just taken its place.
            const auto can_be_read = [&fds](std::size_t at, const UniqueFd& socket) {
                return fds.at(at).revents != 0 && fds.at(at).fd == socket.get();
            };
            if (fds[5].revents != 0) take_datagram();
            if (can_be_read(4, data_socket_) && receive(data_socket_, data_input_)) take_data();
            if (can_be_read(3, control_) && receive(control_, control_input_)) take_requests();
            cut_if_due();
        }
    }

    static void accept(UniqueFd& listener, UniqueFd& socket, wire::Bytes& input) {
        socket = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        const int is_on = 1;
        ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &is_on, sizeof is_on);
        input.clear();
    }

    // Does not read beyond the byte of the next cut.
    bool receive(UniqueFd& socket, wire::Bytes& input) {
        std::array<std::byte, 65536> piece{};
        const std::size_t wanted = script_.cuts.empty() ? piece.size() : script_.cuts.front().after - received_;
        const ssize_t count = ::recv(socket.get(), piece.data(), std::min(piece.size(), wanted), MSG_DONTWAIT);
        if (count <= 0) {
            socket = UniqueFd();
            return false;
        }
        input.insert(input.end(), piece.begin(), piece.begin() + count);
        received_ += static_cast<std::size_t>(count);
        return true;
    }

    void cut_if_due() {
        if (script_.cuts.empty() || received_ < script_.cuts.front().after) return;
        if (script_.cuts.front().is_of_control) control_ = UniqueFd();
        if (script_.cuts.front().is_of_data) data_socket_ = UniqueFd();
        script_.cuts.erase(script_.cuts.begin());
        received_ = 0;
    }

    void take_data() {
        while (data_input_.size() >= wire::kSizeOf<wire::DataHeader>) {
            const auto header =
                *wire::parse<wire::DataHeader>(UntrustedBytes(data_input_).first(wire::kSizeOf<wire::DataHeader>));
            const std::size_t size = wire::kSizeOf<wire::DataHeader> + header.data_size;
            if (data_input_.size() < size) return;
            const auto end = data_input_.begin() + static_cast<std::ptrdiff_t>(size);
            data_.push_back({header, {data_input_.begin() + wire::kSizeOf<wire::DataHeader>, end}});
            data_input_.erase(data_input_.begin(), end);
            arrived_[header.stream_id] = header.net_seq_num + 1;
        }
    }

    void take_datagram() {
        std::array<std::byte, 65536> datagram{};
        const ssize_t count = ::recv(datagrams_.get(), datagram.data(), datagram.size(), 0);
        ASSERT_GT(count, static_cast<ssize_t>(wire::kSizeOf<wire::DatagramHeader>));
        const auto bytes = UntrustedBytes(datagram).first(static_cast<std::size_t>(count));
        const auto header = *wire::parse<wire::DatagramHeader>(bytes.first(wire::kSizeOf<wire::DatagramHeader>));
        const UntrustedBytes piece = bytes.subspan(wire::kSizeOf<wire::DatagramHeader>);
        wire::Bytes& packet = pieces_[{header.stream_id, header.net_seq_num}];
        EXPECT_EQ(packet.size(), header.offset) << "nothing is lost on the way here";
        packet.insert(packet.end(), piece.begin(), piece.end());
        if (packet.size() < header.packet_size) return;
        data_.push_back({{.stream_id = header.stream_id, .net_seq_num = header.net_seq_num}, packet});
        arrived_[header.stream_id] = header.net_seq_num + 1;
    }

    void take_requests() {
        while (control_input_.size() >= wire::kSizeOf<wire::ControlHeader>) {
            const auto header = *wire::parse<wire::ControlHeader>(
                UntrustedBytes(control_input_).first(wire::kSizeOf<wire::ControlHeader>));
            const std::size_t size = wire::kSizeOf<wire::ControlHeader> + header.data_size;
            if (control_input_.size() < size) return;
            const auto end = control_input_.begin() + static_cast<std::ptrdiff_t>(size);
            const Request request{header.command, {control_input_.begin() + wire::kSizeOf<wire::ControlHeader>, end}};
            control_input_.erase(control_input_.begin(), end);
            requests_.push_back(request);
            if (script_.cut_at && count_++ == *script_.cut_at) {
                script_.cut_at.reset();
                control_ = UniqueFd();
                data_socket_ = UniqueFd();
                control_input_.clear();
                data_input_.clear();
                return;
            }
            answer(request);
        }
    }

    void answer(const Request& request) {
        using wire::RelayCode;
        using wire::RelayCommand;
        RelayCode ok = RelayCode::kOk;
        if (script_.refuse == request.command) {
            if (!script_.refuses_always) script_.refuse.reset();
            ok = RelayCode::kUnknownError;
        }
        switch (request.command) {
            case RelayCommand::kVersion:
                return send(wire::encode(wire::Version{.minor = script_.minor}));
            case RelayCommand::kGetConfiguration:
                return send(wire::encode(configuration(request, ok)));
            case RelayCommand::kCreateSession:
                ++parts_;
                return send(wire::encode(wire::CreateSessionReply{1, ok, "host/session"}, script_.minor));
            case RelayCommand::kAddStream:
                is_held_ = is_held_ || (parts_ == script_.hold_part && is_of_metadata(request));
                return send(wire::encode(wire::AddStreamReply{++handles_, ok}));
            case RelayCommand::kCloseTraceChunk:
                return send(wire::encode(wire::CloseTraceChunkReply{ok, "host/session"}));
            case RelayCommand::kSendMetadata:
                return;
            case RelayCommand::kDataPending: {
                const auto message = *wire::parse<wire::DataPending>(request.payload);
                is_held_ = is_held_ || script_.holds_pending;
                const bool is_slow = script_.pending != 0;
                script_.pending -= is_slow ? 1 : 0;
                const bool has_arrived = !is_slow && arrived_[message.stream_id] > message.last_net_seq_num;
                return send(wire::encode(wire::CodeReply{ok != RelayCode::kOk ? ok
                                                         : has_arrived        ? RelayCode::kNotPending
                                                                              : RelayCode::kPending}));
            }
            default:
                return send(wire::encode(wire::CodeReply{ok}));
        }
    }

    [[nodiscard]] wire::ConfigurationReply configuration(const Request& request, wire::RelayCode ok) const {
        const std::uint64_t query = wire::parse<wire::GetConfiguration>(request.payload)->query_flags;
        if (query != 0 && !script_.takes_datagrams) return {.code = wire::RelayCode::kProtocolError, .flags = 0};
        return {.code = ok, .flags = query | (script_.allows_clear ? wire::kClearAllowed : 0)};
    }

    [[nodiscard]] bool is_of_metadata(const Request& request) const {
        return wire::parse<wire::AddStream>(request.payload, script_.minor)->channel_name == "metadata";
    }

    void send(const wire::Bytes& bytes) {
        if (is_held_) {
            held_.insert(held_.end(), bytes.begin(), bytes.end());
            return;
        }
        const std::size_t step = script_.is_slow ? 1 : bytes.size();
        for (std::size_t offset = 0; offset < bytes.size(); offset += step) {
            (void)!::send(control_.get(), bytes.data() + offset, step, MSG_NOSIGNAL);
            if (script_.is_slow) std::this_thread::yield();
        }
    }

    Script script_;
    std::uint16_t control_port_ = 0;
    std::uint16_t data_port_ = 0;
    UniqueFd control_listener_, data_listener_, datagrams_, stop_;
    UniqueFd control_, data_socket_;
    wire::Bytes control_input_, data_input_;
    std::size_t count_ = 0;
    std::size_t received_ = 0;  // bytes since the last cut
    std::uint64_t handles_ = 0;
    std::size_t parts_ = 0;
    bool is_held_ = false;
    wire::Bytes held_;                                // replies
    std::map<std::uint64_t, std::uint64_t> arrived_;  // by handle: the number after the last packet
    std::map<std::pair<std::uint64_t, std::uint64_t>, wire::Bytes> pieces_;  // by handle and number

    std::mutex mutex_;
    std::vector<Request> requests_;
    std::vector<Data> data_;
    std::thread thread_;
};

}  // namespace leat::test
