#include "relay/live/viewer_connection.hpp"

#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/dispatch.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>

#include "relay/log.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;
using wire::LiveCommand;

// For the rest of a request that has begun.
constexpr auto kPatience = 30s;
// A viewer that waits hears from us at least so often.
constexpr auto kLongestWait = 10s;
constexpr std::size_t kViewerBufferSize = 4096;
constexpr std::size_t kMaxReplies = 256U << 10;
constexpr std::uint64_t kMaxNews = 1U << 20;  // bytes of packets in one reply

struct Request {
    LiveCommand command;
    std::size_t payload;  // bytes; the header's own figure is not looked at, as in LTTng's relay
};
constexpr std::array kRequests{
    Request{LiveCommand::kConnect, 20},       Request{LiveCommand::kListSessions, 0},
    Request{LiveCommand::kAttachSession, 20}, Request{LiveCommand::kGetNextIndex, 8},
    Request{LiveCommand::kGetPacket, 20},     Request{LiveCommand::kGetMetadata, 8},
    Request{LiveCommand::kGetNewStreams, 8},  Request{LiveCommand::kCreateSession, 0},
    Request{LiveCommand::kDetachSession, 8},  Request{LiveCommand::kWait, 8},
    Request{LiveCommand::kGetNews, 4},
};

std::uint64_t id_in(UntrustedBytes payload) { return wire::parse<wire::LiveIdRequest>(payload)->id; }

}  // namespace

ViewerConnection::ViewerConnection(asio::ip::tcp::socket socket, Relay& relay)
    : Connection(std::move(socket), "viewer"),
      relay_(&relay),
      input_(kViewerBufferSize),
      waker_(std::make_shared<Waker>(this->socket().get_executor())) {}

asio::awaitable<Result<void>> ViewerConnection::serve() {
    for (;;) {
        // Nothing to serve: more has to come. Sending may begin another turn.
        Result<bool> has_served = true;
        while (has_served && *has_served && !is_turn_over()) has_served = co_await next_request();
        co_await flush();
        if (!has_served) co_return tl::unexpected(has_served.error());
        if (*has_served) {
            co_await yield();
            continue;
        }
        // Between two requests a viewer may be silent for ever, once it has introduced itself.
        if (input_.size() == 0)
            expect_nothing();
        else
            expect_within(kPatience);
        const std::size_t count = co_await receive(input_.room(wanted_));
        if (count == 0) co_return Result<void>();
        input_.add(count);
    }
}

asio::awaitable<Result<bool>> ViewerConnection::next_request() {
    wanted_ = wire::kSizeOf<wire::LiveHeader>;
    if (input_.size() < wanted_) co_return false;
    const auto header = wire::parse<wire::LiveHeader>(input_.bytes().first(wire::kSizeOf<wire::LiveHeader>));
    const auto command = header->command;
    const auto* const request = std::ranges::find(kRequests, command, &Request::command);
    if (request == kRequests.end()) {
        wire::append(replies_, wire::WordReply{11});  // what LTTng's relay says to it
        co_return unsupported("{} is not served", wire::name_of(command));
    }
    wanted_ += request->payload;
    if (input_.size() < wanted_) co_return false;
    const auto done =
        co_await run_command(command, input_.bytes().subspan(wire::kSizeOf<wire::LiveHeader>, request->payload));
    if (!done) co_return tl::unexpected(done.error());
    input_.drop(wanted_);
    note_message();
    co_return true;
}

void ViewerConnection::end() {
    if (viewer_) log_info("{}: gone", peer());
    viewer_.reset();
}

asio::awaitable<Result<void>> ViewerConnection::run_command(LiveCommand command, UntrustedBytes payload) {
    if (command != LiveCommand::kConnect && !is_connected_)
        co_return refused("{} before CONNECT", wire::name_of(command));
    log_debug("{}: {}", peer(), wire::name_of(command));
    switch (command) {
        case LiveCommand::kConnect:
            co_return connect(payload);
        case LiveCommand::kListSessions:
            list_sessions();
            break;
        case LiveCommand::kCreateSession:
            create_session();
            break;
        case LiveCommand::kDetachSession:
            detach_session(id_in(payload));
            break;
        case LiveCommand::kAttachSession: {
            const auto request = wire::parse<wire::AttachSession>(payload);
            ViewerSession::Streams<wire::AttachStatus> streams{{wire::AttachStatus::kNoViewerSession, 0}, {}};
            if (viewer_) streams = viewer_->attach(*request);
            log_info("{}: attaches to session {}: status {}, {} streams", peer(), request->session_id,
                     streams.reply.status, streams.streams.size());
            wire::append(replies_, streams.reply);
            co_await send_descriptors(streams.streams);
            break;
        }
        case LiveCommand::kGetNewStreams: {
            ViewerSession::Streams<wire::NewStreamsStatus> streams{{wire::NewStreamsStatus::kError, 0}, {}};
            if (viewer_) streams = viewer_->new_streams(id_in(payload));
            wire::append(replies_, streams.reply);
            co_await send_descriptors(streams.streams);
            break;
        }
        case LiveCommand::kGetNextIndex: {
            wire::NextIndexReply reply{.status = wire::IndexStatus::kError};
            if (viewer_) reply = viewer_->next_index(id_in(payload));
            wire::append(replies_, reply);
            break;
        }
        case LiveCommand::kGetPacket: {
            ViewerSession::Packet packet{{wire::PacketStatus::kError, 0, 0}, std::nullopt};
            if (viewer_) packet = viewer_->packet(*wire::parse<wire::GetPacket>(payload));
            wire::append(replies_, packet.reply);
            co_await send_range(packet.data);
            break;
        }
        case LiveCommand::kGetMetadata: {
            ViewerSession::Metadata metadata{{0, wire::MetadataStatus::kError}, std::nullopt};
            if (viewer_) metadata = viewer_->metadata(id_in(payload));
            wire::append(replies_, metadata.reply);
            co_await send_range(metadata.text);
            break;
        }
        case LiveCommand::kWait:
            co_await wait_for_change(wire::parse<wire::Wait>(payload)->seen);
            break;
        case LiveCommand::kGetNews:
            co_await send_news(wire::parse<wire::GetNews>(payload)->limit);
            break;
    }
    if (replies_.size() > kMaxReplies) co_await flush();
    co_return Result<void>();
}

Result<void> ViewerConnection::connect(UntrustedBytes payload) {
    const auto request = LEAT_TRY(wire::parse<wire::Connect>(payload));
    if (request.major != wire::kProtocolMajor)
        return unsupported("it speaks live protocol {}.{}; 2 is what we speak", request.major, request.minor);
    constexpr std::uint32_t kNotificationConnection = 2;
    if (request.type != wire::kCommandConnection && request.type != kNotificationConnection)
        return unsupported("a connection of type {} is not served", request.type);
    is_connected_ = true;
    identify();
    const bool asks = (request.viewer_session_id & ~std::uint64_t{wire::kCapabilityMask}) == wire::kAskCapabilities;
    can_wait_ = asks && (request.viewer_session_id & wire::kCanWait) != 0;
    can_get_news_ = asks && (request.viewer_session_id & wire::kCanGetNews) != 0;
    const std::uint32_t capabilities = (can_wait_ ? wire::kCanWait : 0) | (can_get_news_ ? wire::kCanGetNews : 0);
    wire::append(replies_, wire::Connect{.viewer_session_id = relay_->next_id(),
                                         .type = capabilities != 0 ? wire::kHaveCapabilities | capabilities : 0});
    return {};
}

void ViewerConnection::list_sessions() {
    const auto sessions = relay_->sessions();
    wire::append(replies_, wire::WordReply{static_cast<std::uint32_t>(sessions.size())});
    for (const auto& session : sessions) {
        const auto& description = session->description();
        const std::size_t streams = session->locked([](const SessionState& state) { return state.open_streams(); });
        wire::append(replies_, wire::ListedSession{.id = description.id,
                                                   .live_timer_us = description.request.live_timer_us,
                                                   .clients = session->viewers.load(),
                                                   .streams = static_cast<std::uint32_t>(streams),
                                                   .hostname = description.request.hostname,
                                                   .session_name = description.request.session_name});
    }
}

void ViewerConnection::create_session() {
    if (!viewer_) viewer_.emplace(*relay_, [waker = waker_] { wake(waker); });
    wire::append(replies_, wire::CreateViewerReply{wire::CreateViewerStatus::kOk});
}

void ViewerConnection::detach_session(std::uint64_t session_id) {
    const auto status = viewer_ ? viewer_->detach(session_id) : wire::DetachStatus::kNotAttached;
    wire::append(replies_, wire::DetachReply{status});
}

// Descriptors are large: they are made a few at a time.
asio::awaitable<void> ViewerConnection::send_descriptors(const std::vector<wire::StreamDescriptor>& streams) {
    for (const wire::StreamDescriptor& stream : streams) {
        wire::append(replies_, stream);
        if (replies_.size() > kMaxReplies) co_await flush();
        if (is_turn_over()) co_await yield();
    }
}

// From the file into the socket, past our memory. Its head goes first, in one segment with it.
asio::awaitable<void> ViewerConnection::send_range(const std::optional<FileRange>& range) {
    if (!range) co_return;
    co_await flush();
    auto offset = static_cast<off_t>(range->offset);
    std::uint64_t missing = range->size;
    while (missing != 0) {
        if (is_turn_over()) co_await yield();
        const auto size = std::min<std::uint64_t>(missing, kTurnBytes);
        const ssize_t count = ::sendfile(socket().native_handle(), range->fd, &offset, size);
        if (count > 0) {
            missing -= static_cast<std::uint64_t>(count);
            note_bytes(static_cast<std::size_t>(count));
        } else if (count == 0) {
            throw std::runtime_error("a file is shorter than its index says");
        } else if (errno == EAGAIN) {
            co_await wait_for_room();
        } else if (errno != EINTR) {
            throw std::system_error(errno, std::generic_category());
        }
    }
}

void ViewerConnection::wake(const std::shared_ptr<Waker>& waker) {
    if (!waker->is_armed.exchange(false)) return;
    // On its own thread it is next in turn then.
    asio::dispatch(waker->timer.get_executor(), [waker] {
        asio::error_code ignored;
        waker->timer.cancel(ignored);
    });
}

asio::awaitable<void> ViewerConnection::wait_for_change(std::uint64_t seen) {
    if (!can_wait_ || !viewer_) {
        wire::append(replies_, wire::WaitReply{wire::WaitStatus::kError, 0});
        co_return;
    }
    co_await flush();
    // Armed before the look: a change behind it brings its wake-up to this thread, where the wait is begun first.
    waker_->is_armed = true;
    if (viewer_->change() == seen && socket().is_open()) co_await sleep_until_woken(Clock::now() + kLongestWait);
    waker_->is_armed = false;
    wire::append(replies_, wire::WaitReply{wire::WaitStatus::kOk, viewer_->change()});
}

asio::awaitable<void> ViewerConnection::sleep_until_woken(std::chrono::steady_clock::time_point deadline) {
    waker_->timer.expires_at(deadline);
    try {
        co_await waker_->timer.async_wait(asio::use_awaitable);
    } catch (const std::system_error&) {
        // Woken.
    }
}

asio::awaitable<void> ViewerConnection::send_news(std::uint64_t limit) {
    if (!can_get_news_ || !viewer_) {
        wire::append(replies_, wire::NewsReply{.status = wire::NewsStatus::kError});
        co_return;
    }
    co_await flush();
    const auto deadline = Clock::now() + kLongestWait;
    ViewerSession::News news;
    for (;;) {
        // Armed before the look, as in wait_for_change().
        waker_->is_armed = true;
        news = viewer_->news(std::clamp<std::uint64_t>(limit, 1, kMaxNews));
        if (!news.is_empty() || Clock::now() >= deadline || !socket().is_open()) break;
        co_await sleep_until_woken(deadline);
    }
    waker_->is_armed = false;
    const auto count = static_cast<std::uint32_t>(news.entries.size());
    wire::append(replies_, wire::NewsReply{wire::NewsStatus::kOk, news.flags, count});
    for (const ViewerSession::News::Entry& entry : news.entries) {
        append_news(entry);
        if (replies_.size() > kMaxReplies) co_await flush();
    }
}

// Most are a page or less: copied here they share a write, and a segment.
void ViewerConnection::append_news(const ViewerSession::News::Entry& entry) {
    wire::append(replies_, entry.head);
    const std::size_t begin = replies_.size();
    replies_.resize(begin + entry.head.length);
    for (std::size_t at = begin; at < replies_.size();) {
        const ssize_t count = ::pread(entry.file->data.get(), replies_.data() + at, replies_.size() - at,
                                      static_cast<off_t>(entry.head.index.entry.offset + (at - begin)));
        if (count == 0) throw std::runtime_error("a file is shorter than its index says");
        if (count < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category());
        if (count > 0) at += static_cast<std::size_t>(count);
    }
}

asio::awaitable<void> ViewerConnection::flush() {
    if (replies_.empty()) co_return;
    co_await send(replies_);
    replies_.clear();
}

}  // namespace leat::relay
