#include "relay/datagram_receiver.hpp"

#include <sys/socket.h>

#include <asio/use_awaitable.hpp>
#include <cerrno>

#include "relay/log.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLargestDatagram = 64U << 10;
// What comes in one burst has to find room while we write: the network has no back-pressure here.
constexpr int kSocketBuffer = 8 << 20;

}  // namespace

DatagramReceiver::DatagramReceiver(asio::ip::udp::socket socket, Relay& relay)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), relay_(&relay), buffer_(kLargestDatagram) {
    // Beyond the system's limit if we may, else as much as it gives.
    if (::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBuffer, sizeof kSocketBuffer) != 0)
        ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVBUF, &kSocketBuffer, sizeof kSocketBuffer);
}

asio::awaitable<void> DatagramReceiver::receive() {
    try {
        for (;;) {
            const ssize_t count = ::recv(socket_.native_handle(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
            if (count >= 0)
                handle(UntrustedBytes(buffer_).first(static_cast<std::size_t>(count)));
            else if (errno == EAGAIN)
                co_await socket_.async_wait(asio::ip::udp::socket::wait_read, asio::use_awaitable);
        }
    } catch (const std::system_error&) {
        // Closed.
    }
}

asio::awaitable<void> DatagramReceiver::expire() {
    try {
        while (socket_.is_open()) {
            timer_.expires_after(sources_.empty() ? std::chrono::milliseconds(1s) : DatagramWindow::kMaxAge / 2);
            co_await timer_.async_wait(asio::use_awaitable);
            for (auto& [handle, source] : sources_) store(source, std::chrono::steady_clock::now());
            std::erase_if(sources_, [](const auto& entry) {
                return entry.second.session->locked([&](SessionState&) { return entry.second.stream->is_finished(); });
            });
        }
    } catch (const std::system_error&) {
        // Closed.
    }
}

void DatagramReceiver::close() {
    asio::error_code ignored;
    socket_.close(ignored);
    timer_.cancel(ignored);
}

// Whoever sends rubbish gets no answer: anybody can send to this port, in anybody's name.
void DatagramReceiver::handle(UntrustedBytes datagram) {
    if (datagram.size() <= wire::kDatagramHeaderSize) return;
    const auto header = wire::parse<wire::DatagramHeader>(datagram.first(wire::kDatagramHeaderSize));
    if (!header || header->magic != wire::DatagramHeader::kMagic) return;
    Source* const source = find(header->stream_id);
    if (source == nullptr) return;
    const Time now = std::chrono::steady_clock::now();
    const std::size_t before = source->window.bytes();
    if (bytes_ - before + header->packet_size <= kMaxBytes)
        (void)source->window.add(*header, datagram.subspan(wire::kDatagramHeaderSize), now);
    bytes_ += source->window.bytes() - before;
    store(*source, now);
}

DatagramReceiver::Source* DatagramReceiver::find(std::uint64_t handle) {
    if (const auto known = sources_.find(handle); known != sources_.end()) return &known->second;
    const std::shared_ptr<Session> session = relay_->session_of(handle);
    if (session == nullptr) return nullptr;
    auto stream = session->locked([&](SessionState& state) -> std::shared_ptr<DataStream> {
        const auto found = state.streams.find(handle);
        if (found == state.streams.end() || found->second.stream->is_finished()) return nullptr;
        const bool takes_datagrams =
            found->second.stream->parameters().transport == PairingTable::Transport::kDatagrams;
        return takes_datagrams ? found->second.stream : nullptr;
    });
    if (stream == nullptr) return nullptr;
    return &sources_.emplace(handle, Source{session, std::move(stream)}).first->second;
}

void DatagramReceiver::store(Source& source, Time now) {
    const std::size_t before = source.window.bytes();
    bool is_change = false;
    while (const auto packet = source.window.take(now)) {
        const auto stored = source.session->locked([&](SessionState&) { return store(source, *packet, now); });
        if (!stored) log("stream {}: {}", source.stream->parameters().handle, stored.error().message);
        is_change = true;
    }
    bytes_ -= before - source.window.bytes();
    if (is_change) source.session->note_change();
}

Result<void> DatagramReceiver::store(Source& source, const DatagramWindow::Packet& packet, Time now) {
    DataStream& stream = *source.stream;
    LEAT_TRY(stream.begin_packet(
        {.net_seq_num = packet.number, .data_size = static_cast<std::uint32_t>(packet.bytes.size())}));
    if (LEAT_TRY(stream.write(packet.bytes)) != packet.bytes.size()) {
        stream.drop_packet();
        return fail(ErrorKind::kIo, "the disk is full: a packet is lost");
    }
    LEAT_TRY(stream.end_packet(now));
    if (stream.should_finish()) stream.finish();
    return {};
}

}  // namespace leat::relay
