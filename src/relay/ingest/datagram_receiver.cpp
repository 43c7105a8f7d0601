#include "relay/ingest/datagram_receiver.hpp"

#include <sys/socket.h>

#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <vector>

#include "base/log.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;
using Fate = DatagramWindow::Fate;

// One more byte than there can be: what is longer is malformed, and must look so.
constexpr std::size_t kLargestDatagram = wire::kSizeOf<wire::DatagramHeader> + wire::kDatagramPiece + 1;
// Taken with one call; then others of this thread have their turn.
constexpr std::size_t kAtOnce = 32;
// What comes in one burst has to find room while we write: the network has no back-pressure here.
constexpr int kSocketBuffer = 8 << 20;
// A number that is too far may be so because we have not looked at the indexes lately. Strangers make us look, too.
constexpr auto kLookInterval = 10ms;
constexpr auto kTellInterval = 60s;

}  // namespace

DatagramReceiver::DatagramReceiver(asio::ip::udp::socket socket, Relay& relay)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), relay_(&relay), buffer_(kAtOnce * kLargestDatagram) {
    // Beyond the system's limit if we may, else as much as it gives.
    if (::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBuffer, sizeof kSocketBuffer) != 0)
        ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVBUF, &kSocketBuffer, sizeof kSocketBuffer);
}

// Between two bursts the thread's other connections have a turn: a flood of datagrams keeps none of them waiting for
// long.
asio::awaitable<void> DatagramReceiver::receive() {
    try {
        while (socket_.is_open()) {
            if (receive_some() != 0)
                co_await asio::post(socket_.get_executor(), asio::use_awaitable);
            else
                co_await socket_.async_wait(asio::ip::udp::socket::wait_read, asio::use_awaitable);
        }
    } catch (const std::system_error&) {
        // Closed.
    }
}

std::size_t DatagramReceiver::receive_some() {
    std::array<iovec, kAtOnce> pieces{};
    std::array<mmsghdr, kAtOnce> messages{};
    for (std::size_t i = 0; i < kAtOnce; ++i) {
        pieces[i] = {buffer_.data() + i * kLargestDatagram, kLargestDatagram};
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int count = ::recvmmsg(socket_.native_handle(), messages.data(), kAtOnce, MSG_DONTWAIT, nullptr);
    if (count <= 0) return 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
        handle(UntrustedBytes(buffer_).subspan(i * kLargestDatagram, messages[i].msg_len));
    return static_cast<std::size_t>(count);
}

// Twice in the time after which a piece is late, so that it is late by half of that at most.
asio::awaitable<void> DatagramReceiver::expire() {
    try {
        while (socket_.is_open()) {
            timer_.expires_after(sources_.empty() ? std::chrono::milliseconds(1s) : DatagramWindow::kMaxAge / 2);
            co_await timer_.async_wait(asio::use_awaitable);
            const Time now = std::chrono::steady_clock::now();
            if (relay_->handles().announced() != handles_seen_) add_sources();
            for (auto& [handle, source] : sources_) {
                if (!source.waits()) continue;
                deliver(source, now);
                clean(source, now);
            }
            remove_ended();
            tell_unknown(now);
        }
    } catch (const std::system_error&) {
        // Closed.
    }
}

void DatagramReceiver::close() {
    asio::error_code ignored;
    socket_.close(ignored);
    timer_.cancel(ignored);
    for (const auto& [handle, source] : sources_) tell_end(source);
    sources_.clear();
    tell_unknown(Time::max());
}

// The cheapest checks come first: most of what a stranger sends ends at the look into the table. Only the first wrong
// datagram of a stream is told, because anybody can send them, and the log is to stay readable.
void DatagramReceiver::handle(UntrustedBytes datagram) {
    const bool has_header = datagram.size() > wire::kSizeOf<wire::DatagramHeader>;
    const auto header =
        wire::parse<wire::DatagramHeader>(datagram.first(has_header ? wire::kSizeOf<wire::DatagramHeader> : 0));
    Source* const source = header && header->magic == wire::DatagramHeader::kMagic ? find(header->stream_id) : nullptr;
    if (source == nullptr) {
        ++unknown_;
        return;
    }
    const Time now = std::chrono::steady_clock::now();
    const Fate fate = add(*source, *header, datagram.subspan(wire::kSizeOf<wire::DatagramHeader>), now);
    const bool is_wrong = fate == Fate::kTooFar || fate == Fate::kMalformed;
    if (is_wrong && source->count(Fate::kTooFar) + source->count(Fate::kMalformed) == 0)
        log("stream {}: a datagram that its producer cannot have sent is dropped; more are only counted",
            source->entry->id);
    ++source->counts[static_cast<std::size_t>(fate)];
}

// New streams are looked for only when the relay has announced some: an unknown handle costs a stranger's datagram no
// lock.
DatagramReceiver::Source* DatagramReceiver::find(std::uint64_t handle) {
    auto known = sources_.find(handle);
    if (known == sources_.end() && relay_->handles().announced() != handles_seen_) {
        add_sources();
        known = sources_.find(handle);
    }
    return known == sources_.end() ? nullptr : &known->second;
}

void DatagramReceiver::add_sources() {
    handles_seen_ = relay_->handles().announced();
    for (const auto& added : relay_->handles().take_announced())
        if (const auto session = added.session.lock()) add_source(added.handle, session);
}

void DatagramReceiver::add_source(std::uint64_t handle, const std::shared_ptr<StoredSession>& session) {
    auto entry = session->locked([&](const SessionState& state) -> std::shared_ptr<SessionStream> {
        const auto found = state.by_handle.find(handle);
        if (found == state.by_handle.end() || found->second->view.is_finished) return nullptr;
        const StreamParameters& parameters = found->second->stream->parameters();
        // Without indexes nothing would tell what is real.
        const bool takes_datagrams =
            parameters.transport == PairingTable::Transport::kDatagrams && parameters.files.index_minor;
        return takes_datagrams ? found->second : nullptr;
    });
    if (entry != nullptr) sources_.emplace(handle, Source{.session = session, .entry = std::move(entry)});
}

Fate DatagramReceiver::add(Source& source, const wire::DatagramHeader& header, UntrustedBytes piece, Time now) {
    const std::size_t before = source.window.bytes();
    Fate fate = source.window.add(header, piece, now);
    if (fate == Fate::kTooFar && now - source.last_look > kLookInterval) {
        deliver(source, now);
        fate = source.window.add(header, piece, now);
    }
    if (source.window.bytes() != before) update_budget(source);
    if (fate == Fate::kWhole) deliver(source, now);
    return fate;
}

// Whoever holds most pays with its largest packets, which need not be the stream that has grown.
void DatagramReceiver::update_budget(const Source& source) {
    const std::uint64_t session = source.session->description().id;
    const std::uint64_t stream = source.stream().parameters().handle;
    budget_.set(session, stream, source.window.bytes());
    while (const auto debtor = budget_.debtor(session, stream)) {
        Source& payer = sources_.at(*debtor);
        payer.window.drop_largest();
        budget_.set(payer.session->description().id, *debtor, payer.window.bytes());
    }
}

// Packets leave the window under the stream's lock, and are stored without it: the lock is taken for each again. Data
// that is late by now is given up, so that the indexes behind it need not wait for the age of a connection's packet.
void DatagramReceiver::deliver(Source& source, Time now) {
    source.last_look = now;
    DataStream& stream = source.stream();
    if (stream.is_finished()) return;
    const auto next = [&] {
        return stream.with_pairs([&](PairingTable& pairs) { return source.window.take(pairs, now); });
    };
    while (const auto packet = next()) {
        source.session->note_data();
        store(source, *packet, now);
    }
    stream.with_pairs([&](PairingTable& pairs) {
        pairs.give_up_data(now - DatagramWindow::kMaxAge);
        if (source.window.packets() != 0) deliver_when_indexed(stream.parameters().handle, pairs);
    });
    update_budget(source);
    // What the disk has no room for is tried again by the housekeeping.
    Changes changes;
    changes.add(source.entry);
    if (changes.flush(*source.session, now).value_or(false)) source.session->note_change();
}

void DatagramReceiver::clean(Source& source, Time now) {
    if (source.window.packets() == 0) return;
    source.stream().with_pairs([&](PairingTable& pairs) { source.window.clean(pairs, now); });
    update_budget(source);
}

// The index may come on any thread, under the stream's lock: only a post leaves from there. By then the source may be
// gone.
void DatagramReceiver::deliver_when_indexed(std::uint64_t handle, PairingTable& pairs) {
    pairs.call_at_next_index([this, handle] {
        asio::post(socket_.get_executor(), [this, handle] {
            const auto found = sources_.find(handle);
            if (found != sources_.end()) deliver(found->second, std::chrono::steady_clock::now());
        });
    });
}

void DatagramReceiver::store(Source& source, const DatagramWindow::WholePacket& packet, Time now) {
    const auto stored = source.stream().store_packet(packet.number, packet.bytes, now);
    if (!stored && source.unstored_packets++ == 0)
        log("stream {}: {}; more are only counted", source.entry->id, stored.error().message);
}

void DatagramReceiver::remove_ended() {
    std::erase_if(sources_, [this](const auto& entry) {
        const Source& source = entry.second;
        if (!source.stream().is_finished()) return false;
        tell_end(source);
        budget_.set(source.session->description().id, entry.first, 0);
        return true;
    });
}

void DatagramReceiver::tell_end(const Source& source) {
    const std::uint64_t wrong = source.count(Fate::kTooFar) + source.count(Fate::kMalformed);
    const std::uint64_t dropped = source.window.dropped_packets();
    if (wrong + dropped + source.unstored_packets == 0) return;
    log("stream {}: dropped {} datagrams that its producer cannot have sent ({} of numbers too far ahead, {} "
        "malformed), "
        "{} that came too late, and {} packets that stayed incomplete or that no index spoke of; {} could not be "
        "stored",
        source.entry->id, wrong, source.count(Fate::kTooFar), source.count(Fate::kMalformed),
        source.count(Fate::kTooLate), dropped, source.unstored_packets);
}

void DatagramReceiver::tell_unknown(Time now) {
    if (unknown_ == unknown_told_ || now - unknown_told_at_ < kTellInterval) return;
    log("{} datagrams for no stream were dropped", unknown_ - unknown_told_);
    unknown_told_ = unknown_;
    unknown_told_at_ = now;
}

}  // namespace leat::relay
