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
                return entry.second.stream->stream->is_finished();
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
    const std::shared_ptr<Session> session = relay_->handles().session_of(handle);
    if (session == nullptr) return nullptr;
    auto stream = session->locked([&](const SessionState& state) -> std::shared_ptr<SessionStream> {
        const auto found = state.by_handle.find(handle);
        if (found == state.by_handle.end() || found->second->view.is_finished) return nullptr;
        const auto transport = found->second->stream->parameters().transport;
        return transport == PairingTable::Transport::kDatagrams ? found->second : nullptr;
    });
    if (stream == nullptr) return nullptr;
    return &sources_.emplace(handle, Source{session, std::move(stream)}).first->second;
}

void DatagramReceiver::store(Source& source, Time now) {
    const std::size_t before = source.window.bytes();
    Changes changes;
    while (const auto packet = source.window.take(now)) {
        const auto stored = source.stream->stream->store_packet(packet->number, packet->bytes, now);
        if (!stored) log("stream {}: {}", source.stream->id, stored.error().message);
        changes.add(source.stream);
    }
    bytes_ -= before - source.window.bytes();
    // What the disk has no room for is tried again by the housekeeping.
    if (!changes.is_empty() && changes.flush(*source.session, now).value_or(true)) source.session->note_change();
}

}  // namespace leat::relay
