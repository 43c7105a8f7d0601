#pragma once

#include <asio/steady_timer.hpp>
#include <atomic>
#include <memory>
#include <optional>

#include "relay/connection.hpp"
#include "relay/live/viewer_session.hpp"
#include "relay/relay.hpp"
#include "wire/live/live_messages.hpp"

namespace leat::relay {

// A viewer's connection: requests in, replies out, in order. A viewer that reads slowly holds up itself alone.
class ViewerConnection final : public Connection {
  public:
    ViewerConnection(asio::ip::tcp::socket socket, Relay& relay);

  private:
    // Wakes the connection when something it has attached to has changed. Shared with listeners, which may still be
    // called while the connection ends.
    struct Waker {
        explicit Waker(const asio::ip::tcp::socket::executor_type& executor) : timer(executor) {}
        asio::steady_timer timer;
        std::atomic<bool> is_armed{false};
    };
    static void wake(const std::shared_ptr<Waker>& waker);

    asio::awaitable<Result<void>> serve() override;
    void end() override;
    void wake_up() override { wake(waker_); }

    // One request off the buffer; false: there is no whole one in it.
    asio::awaitable<Result<bool>> next_request();

    // What a command needs. Without CONNECT the connection ends; without the rest the command is refused:
    // kViewerSession is CREATE_SESSION, kWaiting and kNews are that and the capability.
    enum class Needs : std::uint8_t { kNothing, kConnect, kViewerSession, kWaiting, kNews };
    [[nodiscard]] bool has(Needs what) const;
    struct Command;
    using Done = asio::awaitable<Result<void>>;
    Done run_command(const Command& command);
    static Done completed(Result<void> result);
    // One for each command. What it needs is there.
    Done connect(wire::Connect request);
    Done list_sessions();
    Done create_session();
    Done attach_session(wire::AttachSession request);
    Done detach_session(wire::LiveIdRequest session);
    Done get_new_streams(wire::LiveIdRequest session);
    Done get_next_index(wire::LiveIdRequest stream);
    Done get_packet(wire::GetPacket request);
    Done get_metadata(wire::LiveIdRequest stream);
    Done wait_for_change(wire::Wait request);
    Done get_news(wire::GetNews request);

    asio::awaitable<void> send_descriptors(const std::vector<wire::StreamDescriptor>& streams);
    asio::awaitable<void> send_range(const std::optional<FileRange>& range);
    asio::awaitable<void> sleep_until_woken(std::chrono::steady_clock::time_point deadline);
    void append_news(const ViewerSession::News::Entry& entry);
    asio::awaitable<void> flush();

    Relay* relay_;
    InputBuffer input_;
    std::size_t wanted_ = 0;  // bytes of the request that has begun
    bool is_connected_ = false;
    bool can_wait_ = false;
    bool can_get_news_ = false;
    std::shared_ptr<Waker> waker_;
    std::optional<ViewerSession> viewer_{};
    wire::Bytes replies_{};
};

}  // namespace leat::relay
