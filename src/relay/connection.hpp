#pragma once

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "relay/admission.hpp"
#include "relay/ingest/splice_pipe.hpp"
#include "relay/traffic.hpp"
#include "wire/layout.hpp"

namespace leat::relay {

// One TCP connection and the coroutine that serves it. All of it runs on the thread of its socket. It lives as long as
// the coroutine.
class Connection : public std::enable_shared_from_this<Connection> {
  public:
    virtual ~Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // It is dropped if it has not identified itself after `patience`, or sooner, if a newcomer needs its place.
    void start(Admission::Place place, std::chrono::milliseconds patience);
    // Any thread. The coroutine then ends by itself, also if it sleeps.
    void stop();
    // Any thread. It takes what the system has already received, and ends as if the peer had closed behind that.
    void drain();
    // Any thread. It is given so long to come to its end; more when bytes come meanwhile.
    void hurry(std::chrono::seconds patience);

  protected:
    using Clock = std::chrono::steady_clock;

    // `kind` is for messages: "producer", "viewer". `traffic` outlives the connection.
    Connection(asio::ip::tcp::socket socket, const std::string& kind, Traffic& traffic);

    // Until the peer goes away, or an error ends it.
    virtual asio::awaitable<Result<void>> serve() = 0;
    // Called after serve() has returned, even if it threw.
    virtual void end() = 0;
    // The socket was closed while serve() may be waiting for something else.
    virtual void wake_up() {}
    // wait_for_disk() has waited for a while.
    virtual void note_disk_wait() {}

    // The peer has said what makes it more than a stranger.
    void identify();

    // As many bytes as are there, at least one; 0: the peer has closed.
    asio::awaitable<std::size_t> receive(std::span<std::byte> bytes);
    // The same without waiting; nothing: there is nothing yet.
    std::optional<std::size_t> try_receive(std::span<std::byte> bytes);
    // The same, into an empty pipe.
    std::optional<std::size_t> try_receive(SplicePipe& pipe);
    asio::awaitable<void> wait_for_bytes();
    asio::awaitable<void> wait_for_room();
    asio::awaitable<void> send(UntrustedBytes bytes);

    // A connection that always has more to do would keep others on its thread waiting. Every byte that it receives or
    // sends counts, and every message; when its turn is over, it has to yield.
    void note_message() { ++turn_messages_; }
    void note_bytes(std::size_t count) { turn_bytes_ += count; }
    [[nodiscard]] bool is_turn_over() const { return turn_messages_ >= kTurnMessages || turn_bytes_ >= kTurnBytes; }
    // All others who have something to do, also those whose bytes arrive just now, have a turn first.
    asio::awaitable<void> yield();
    static constexpr std::size_t kTurnMessages = 256;
    static constexpr std::size_t kTurnBytes = 1U << 20;

    asio::awaitable<void> sleep(std::chrono::microseconds duration);
    // A full disk is a slow disk: to be tried again behind this. The log tells it once, and once that it is over.
    asio::awaitable<void> wait_for_disk();
    void note_stored();
    // The peer could do nothing for so long.
    void forgive(Clock::duration duration);
    // The peer takes what is sent to it within a minute and a half, or it is gone; also one that lives and whose window
    // stays shut.
    void expect_acknowledgements();
    // The other connection of the session is behind: to be tried again after this. The peer is not blamed meanwhile.
    asio::awaitable<void> wait_for_other();

    // A peer that is slower than this with a message is dropped.
    void expect_within(Clock::duration duration) { deadline_ = Clock::now() + duration; }
    // And so after all that come.
    void expect_bytes_within(Clock::duration duration) {
        patience_ = duration;
        expect_within(duration);
    }
    void expect_nothing() { deadline_ = Clock::time_point::max(); }
    // The same for a while: returns when the message that is under way was to be here.
    [[nodiscard]] Clock::time_point blame_nobody() { return std::exchange(deadline_, Clock::time_point::max()); }
    void expect_by(Clock::time_point deadline) { deadline_ = deadline; }

    [[nodiscard]] asio::ip::tcp::socket& socket() { return socket_; }
    [[nodiscard]] const std::string& peer() const { return peer_; }
    [[nodiscard]] const std::string& address() const { return address_; }

  private:
    void note_received(std::size_t count);
    void begin_turn() { turn_messages_ = turn_bytes_ = 0; }
    void drop_for_newcomer();
    void close();
    [[nodiscard]] bool is_too_slow();
    asio::awaitable<void> run();
    asio::awaitable<void> watch();

    asio::ip::tcp::socket socket_;
    Traffic* traffic_;
    asio::steady_timer watchdog_;
    std::string address_;  // of the peer, without its port
    std::string peer_;     // kind, address and port
    Clock::time_point deadline_ = Clock::time_point::max();
    Clock::duration patience_{};        // renewed with every byte, if not 0
    std::size_t allowance_ = SIZE_MAX;  // bytes that it still takes
    std::size_t turn_messages_ = 0;
    std::size_t turn_bytes_ = 0;
    Admission::Place place_{};
    std::chrono::milliseconds stranger_patience_{};
    Clock::time_point stranger_deadline_{};
    bool is_identified_ = false;
    bool has_received_ = false;
    bool is_disk_full_ = false;
    bool has_ended_ = false;
};

// Bytes that have come and are not used up yet: whole messages are taken off its front.
class InputBuffer {
  public:
    explicit InputBuffer(std::size_t size) : bytes_(size) {}

    [[nodiscard]] UntrustedBytes bytes() const { return UntrustedBytes(bytes_).subspan(begin_, end_ - begin_); }
    [[nodiscard]] std::size_t size() const { return end_ - begin_; }
    void drop(std::size_t count) { begin_ += count; }
    // Room for more, behind what is there; `wanted` bytes in all if it must grow.
    std::span<std::byte> room(std::size_t wanted);
    void add(std::size_t count) { end_ += count; }

  private:
    wire::Bytes bytes_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

}  // namespace leat::relay
