#include "relay/live/viewer_connection.hpp"

#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/dispatch.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>

#include "base/file.hpp"
#include "base/log.hpp"

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

}  // namespace

// A command that is served. The size of its payload is that of its message: the header's own figure is not looked at,
// as in LTTng's relay.
struct ViewerConnection::Command {
    LiveCommand command;
    Needs needs;
    std::size_t payload;  // bytes
    Done (*run)(ViewerConnection&, UntrustedBytes payload);
    void (*refuse)(ViewerConnection&, UntrustedBytes payload);  // replies that what it needs is not there

    // Nothing: it is not served.
    static const Command* find(LiveCommand command);

  private:
    template <auto handler>
    static constexpr Command served(LiveCommand command, Needs needs,
                                    void (*refuse)(ViewerConnection&, UntrustedBytes) = nullptr) {
        return {command, needs, payload_of(handler), run_handler<handler>, refuse};
    }
    template <auto reply>
    static void refusal(ViewerConnection& connection, UntrustedBytes /*payload*/) {
        wire::append(connection.replies_, reply);
    }
    static void refuse_attach(ViewerConnection& connection, UntrustedBytes payload) {
        if (const auto request = wire::parse<wire::AttachSession>(payload))
            log_info("{}: does not attach to session {}: it has not created a viewer session", connection.peer(),
                     request->session_id);
        wire::append(connection.replies_, wire::AttachReply{wire::AttachStatus::kNoViewerSession});
    }

    template <class Message>
    static constexpr std::size_t payload_of(Done (ViewerConnection::*)(Message)) {
        return wire::kSizeOf<Message>;
    }
    static constexpr std::size_t payload_of(Done (ViewerConnection::*)()) { return 0; }

    template <auto handler>
    static Done run_handler(ViewerConnection& connection, UntrustedBytes payload) {
        return call(connection, handler, payload);
    }
    template <class Message>
    static Done call(ViewerConnection& connection, Done (ViewerConnection::*handler)(Message), UntrustedBytes payload) {
        const auto message = wire::parse<Message>(payload);
        if (!message) return completed(tl::unexpected(message.error()));
        return (connection.*handler)(*message);
    }
    static Done call(ViewerConnection& connection, Done (ViewerConnection::*handler)(), UntrustedBytes /*payload*/) {
        return (connection.*handler)();
    }
};

const ViewerConnection::Command* ViewerConnection::Command::find(LiveCommand command) {
    using V = ViewerConnection;
    static constexpr std::array kCommands{
        served<&V::connect>(LiveCommand::kConnect, Needs::kNothing),
        served<&V::list_sessions>(LiveCommand::kListSessions, Needs::kConnect),
        served<&V::create_session>(LiveCommand::kCreateSession, Needs::kConnect),
        served<&V::attach_session>(LiveCommand::kAttachSession, Needs::kViewerSession, refuse_attach),
        served<&V::detach_session>(LiveCommand::kDetachSession, Needs::kViewerSession,
                                   refusal<wire::DetachReply{wire::DetachStatus::kNotAttached}>),
        served<&V::get_new_streams>(LiveCommand::kGetNewStreams, Needs::kViewerSession,
                                    refusal<wire::NewStreamsReply{wire::NewStreamsStatus::kError}>),
        served<&V::get_next_index>(LiveCommand::kGetNextIndex, Needs::kViewerSession,
                                   refusal<wire::NextIndexReply{.status = wire::IndexStatus::kError}>),
        served<&V::get_packet>(LiveCommand::kGetPacket, Needs::kViewerSession,
                               refusal<wire::PacketReply{wire::PacketStatus::kError}>),
        served<&V::get_metadata>(LiveCommand::kGetMetadata, Needs::kViewerSession,
                                 refusal<wire::MetadataReply{.status = wire::MetadataStatus::kError}>),
        served<&V::wait_for_change>(LiveCommand::kWait, Needs::kWaiting,
                                    refusal<wire::WaitReply{wire::WaitStatus::kError}>),
        served<&V::get_news>(LiveCommand::kGetNews, Needs::kNews, refusal<wire::NewsReply{wire::NewsStatus::kError}>),
    };
    const auto* const found = std::ranges::find(kCommands, command, &Command::command);
    return found == kCommands.end() ? nullptr : found;
}

ViewerConnection::ViewerConnection(asio::ip::tcp::socket socket, Relay& relay)
    : Connection(std::move(socket), "viewer", relay.traffic()),
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
    if (!header) co_return tl::unexpected(header.error());
    const Command* const command = Command::find(header->command);
    if (command == nullptr) {
        wire::append(replies_, wire::WordReply{11});  // what LTTng's relay says to it
        co_return unsupported("{} is not served", wire::name_of(header->command));
    }
    wanted_ += command->payload;
    if (input_.size() < wanted_) co_return false;
    const auto done = co_await run_command(*command);
    if (!done) co_return tl::unexpected(done.error());
    if (replies_.size() > kMaxReplies) co_await flush();
    input_.drop(wanted_);
    note_message();
    co_return true;
}

void ViewerConnection::end() {
    if (viewer_) log_info("{}: gone", peer());
    viewer_.reset();
}

bool ViewerConnection::has(Needs what) const {
    switch (what) {
        case Needs::kNothing:
            break;
        case Needs::kConnect:
            return is_connected_;
        case Needs::kViewerSession:
            return viewer_.has_value();
        case Needs::kWaiting:
            return viewer_ && can_wait_;
        case Needs::kNews:
            return viewer_ && can_get_news_;
    }
    return true;
}

// No coroutine, nor are the functions that it calls in Command: a request costs one, its handler.
ViewerConnection::Done ViewerConnection::run_command(const Command& command) {
    if (command.needs != Needs::kNothing && !is_connected_)
        return completed(refused("{} before CONNECT", wire::name_of(command.command)));
    log_debug("{}: {}", peer(), wire::name_of(command.command));
    const UntrustedBytes payload = input_.bytes().subspan(wire::kSizeOf<wire::LiveHeader>, command.payload);
    if (has(command.needs)) return command.run(*this, payload);
    command.refuse(*this, payload);
    return completed({});
}

ViewerConnection::Done ViewerConnection::completed(Result<void> result) { co_return std::move(result); }

ViewerConnection::Done ViewerConnection::connect(wire::Connect request) {
    if (request.major != wire::kProtocolMajor)
        co_return unsupported("it speaks live protocol {}.{}; 2 is what we speak", request.major, request.minor);
    constexpr std::uint32_t kNotificationConnection = 2;
    if (request.type != wire::kCommandConnection && request.type != kNotificationConnection)
        co_return unsupported("a connection of type {} is not served", request.type);
    is_connected_ = true;
    identify();
    const bool asks = (request.viewer_session_id & ~std::uint64_t{wire::kCapabilityMask}) == wire::kAskCapabilities;
    can_wait_ = asks && (request.viewer_session_id & wire::kCanWait) != 0;
    can_get_news_ = asks && (request.viewer_session_id & wire::kCanGetNews) != 0;
    const std::uint32_t capabilities = (can_wait_ ? wire::kCanWait : 0) | (can_get_news_ ? wire::kCanGetNews : 0);
    wire::append(replies_, wire::Connect{.viewer_session_id = relay_->next_id(),
                                         .type = capabilities != 0 ? wire::kHaveCapabilities | capabilities : 0});
    co_return Result<void>();
}

ViewerConnection::Done ViewerConnection::list_sessions() {
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
    co_return Result<void>();
}

ViewerConnection::Done ViewerConnection::create_session() {
    if (!viewer_) viewer_.emplace(*relay_, [waker = waker_] { wake(waker); });
    wire::append(replies_, wire::CreateViewerReply{wire::CreateViewerStatus::kOk});
    co_return Result<void>();
}

ViewerConnection::Done ViewerConnection::attach_session(wire::AttachSession request) {
    const auto streams = viewer_->attach(request);
    log_info("{}: attaches to session {}: status {}, {} streams", peer(), request.session_id, streams.reply.status,
             streams.streams.size());
    wire::append(replies_, streams.reply);
    co_await send_descriptors(streams.streams);
    co_return Result<void>();
}

ViewerConnection::Done ViewerConnection::detach_session(wire::LiveIdRequest session) {
    wire::append(replies_, wire::DetachReply{viewer_->detach(session.id)});
    co_return Result<void>();
}

ViewerConnection::Done ViewerConnection::get_new_streams(wire::LiveIdRequest session) {
    const auto streams = viewer_->new_streams(session.id);
    wire::append(replies_, streams.reply);
    co_await send_descriptors(streams.streams);
    co_return Result<void>();
}

ViewerConnection::Done ViewerConnection::get_next_index(wire::LiveIdRequest stream) {
    wire::NextIndexReply index = viewer_->next_index(stream.id);
    while (viewer_->must_go_on()) {
        co_await yield();
        index = viewer_->next_index(stream.id);
    }
    wire::append(replies_, index);
    co_return Result<void>();
}

ViewerConnection::Done ViewerConnection::get_packet(wire::GetPacket request) {
    const ViewerSession::ServedPacket packet = viewer_->packet(request);
    wire::append(replies_, packet.reply);
    co_await send_range(packet.data);
    co_return Result<void>();
}

ViewerConnection::Done ViewerConnection::get_metadata(wire::LiveIdRequest stream) {
    ViewerSession::ServedMetadata metadata = viewer_->metadata(stream.id);
    // "Nothing new" would be no answer: `leat view` has packets already that need it.
    while (metadata.must_go_on || metadata.must_wait) {
        if (metadata.must_wait) co_await flush();
        co_await (metadata.must_wait ? wait_for_other() : yield());
        metadata = viewer_->metadata(stream.id);
    }
    wire::append(replies_, metadata.reply);
    replies_.insert(replies_.end(), metadata.head.begin(), metadata.head.end());
    co_await send_range(metadata.text);
    co_return Result<void>();
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

ViewerConnection::Done ViewerConnection::wait_for_change(wire::Wait request) {
    co_await flush();
    // Armed before the look: a change behind it brings its wake-up to this thread, where the wait is begun first.
    waker_->is_armed = true;
    if (viewer_->change() == request.seen && socket().is_open())
        co_await sleep_until_woken(Clock::now() + kLongestWait);
    waker_->is_armed = false;
    wire::append(replies_, wire::WaitReply{wire::WaitStatus::kOk, viewer_->change()});
    co_return Result<void>();
}

asio::awaitable<void> ViewerConnection::sleep_until_woken(std::chrono::steady_clock::time_point deadline) {
    waker_->timer.expires_at(deadline);
    try {
        co_await waker_->timer.async_wait(asio::use_awaitable);
    } catch (const std::system_error&) {
        // Woken.
    }
}

ViewerConnection::Done ViewerConnection::get_news(wire::GetNews request) {
    co_await flush();
    const auto deadline = Clock::now() + kLongestWait;
    ViewerSession::News news;
    for (;;) {
        // Armed before the look, as in wait_for_change().
        waker_->is_armed = true;
        news = viewer_->news(std::clamp<std::uint64_t>(request.limit, 1, kMaxNews));
        if (!news.is_empty() || Clock::now() >= deadline || !socket().is_open()) break;
        if (viewer_->must_go_on())
            co_await yield();
        else
            co_await sleep_until_woken(deadline);
    }
    waker_->is_armed = false;
    const auto count = static_cast<std::uint32_t>(news.entries.size());
    wire::append(replies_, wire::NewsReply{wire::NewsStatus::kOk, news.flags, count});
    // All before the viewer reads any: who does not read must keep no files open.
    for (const ViewerSession::News::Entry& entry : news.entries) append_news(entry);
    co_return Result<void>();
}

// Most are a page or less: copied here they share a write, and a segment.
void ViewerConnection::append_news(const ViewerSession::News::Entry& entry) {
    wire::append(replies_, entry.head);
    if (entry.head.length == 0) return;  // nothing is to be read, and there is no file
    const std::size_t begin = replies_.size();
    replies_.resize(begin + entry.head.length);
    const auto packet = std::span(replies_).subspan(begin);
    const auto filled = read_at(entry.file->data.get(), entry.head.index.entry.offset, packet);
    if (!filled) throw std::runtime_error(filled.error().message);
    if (*filled < packet.size()) throw std::runtime_error("a file is shorter than its index says");
}

asio::awaitable<void> ViewerConnection::flush() {
    if (replies_.empty()) co_return;
    co_await send(replies_);
    replies_.clear();
}

}  // namespace leat::relay
