#include "relay/connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;

// How often deadlines are looked at: they are coarse, and idle connections are to cost nothing.
constexpr std::chrono::milliseconds kWatchInterval = 5s;
// A full disk is looked at again this often.
constexpr auto kDiskInterval = 200ms;
constexpr auto kOtherInterval = 5ms;
// For it to come, when the peer has gone.
constexpr auto kPatienceForOther = 10s;

// A peer that has vanished without a word is noticed after a minute and a half.
void set_options(asio::ip::tcp::socket& socket) {
    const int handle = socket.native_handle();
    const auto set = [handle](int level, int option, int value) {
        ::setsockopt(handle, level, option, &value, sizeof value);
    };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
    asio::error_code ignored;
    socket.native_non_blocking(true, ignored);
}

std::string address_of(const asio::ip::tcp::socket& socket) {
    asio::error_code error;
    const auto endpoint = socket.remote_endpoint(error);
    return error ? "an unknown address" : endpoint.address().to_string();
}

unsigned port_of(const asio::ip::tcp::socket& socket) {
    asio::error_code error;
    const auto endpoint = socket.remote_endpoint(error);
    return error ? 0U : endpoint.port();
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, const std::string& kind, Traffic& traffic)
    : socket_(std::move(socket)),
      traffic_(&traffic),
      watchdog_(socket_.get_executor()),
      address_(address_of(socket_)),
      peer_(fmt::format("{} {}:{}", kind, address_, port_of(socket_))) {
    set_options(socket_);
}

// The coroutines keep the connection alive, and it keeps nothing of them: it goes with the last of the two. on_drop()
// has a weak reference only, because the place is a member.
void Connection::start(Admission::Place place, std::chrono::milliseconds patience) {
    const auto self = shared_from_this();
    place_ = std::move(place);
    place_.on_drop([connection = weak_from_this()] {
        if (const auto stranger = connection.lock()) stranger->drop_for_newcomer();
    });
    stranger_patience_ = patience;
    stranger_deadline_ = Clock::now() + patience;
    asio::co_spawn(
        socket_.get_executor(), [self] { return self->run(); }, asio::detached);
    asio::co_spawn(
        socket_.get_executor(), [self] { return self->watch(); }, asio::detached);
}

void Connection::stop() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->close(); });
}

void Connection::drop_for_newcomer() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        if (self->has_ended_) return;
        log_info("{}: it has not introduced itself, and somebody else needs its place: dropped", self->peer_);
        self->close();
    });
}

// The coroutine learns of it by an exception from the socket. One that waits for something else is woken by its own
// means.
void Connection::close() {
    asio::error_code ignored;
    socket_.close(ignored);
    wake_up();
}

void Connection::identify() {
    if (std::exchange(is_identified_, true)) return;
    place_.identify();
}

// What the system has received was acknowledged to the peer by TCP, so it must not be lost; what comes after is not
// taken.
void Connection::drain() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        if (self->allowance_ != SIZE_MAX) return;  // it drains already
        asio::error_code ignored;
        self->allowance_ = self->socket_.available(ignored);
        self->socket_.shutdown(asio::ip::tcp::socket::shutdown_receive, ignored);  // wakes who waits
    });
}

void Connection::hurry(std::chrono::seconds patience) {
    asio::post(socket_.get_executor(), [self = shared_from_this(), patience] { self->expect_bytes_within(patience); });
}

// end() runs exactly once, after serve(), whatever ended it: that is where sessions and files are put in order.
asio::awaitable<void> Connection::run() {
    try {
        const auto served = co_await serve();
        if (!served) log_warning("{}: {}", peer_, served.error().message);
    } catch (const std::system_error&) {
        // The peer is gone, or was dropped: an everyday event.
    } catch (const std::exception& error) {
        log_warning("{}: {}", peer_, error.what());
    }
    has_ended_ = true;
    end();
    asio::error_code ignored;
    socket_.close(ignored);
    watchdog_.cancel(ignored);
}

asio::awaitable<void> Connection::watch() {
    const auto self = shared_from_this();
    while (!has_ended_) {
        watchdog_.expires_after(is_identified_ ? kWatchInterval : std::min(kWatchInterval, stranger_patience_ / 4));
        try {
            co_await watchdog_.async_wait(asio::use_awaitable);
        } catch (const std::system_error&) {
            break;
        }
        if (has_ended_ || !is_too_slow()) continue;
        close();
        break;
    }
}

// A stranger that has said something had its time, and has not said what makes it known. One that is silent may be a
// data connection that waits for its first packet: the admission knows whether one is expected.
bool Connection::is_too_slow() {
    const auto now = Clock::now();
    if (!is_identified_ && now >= stranger_deadline_ && (has_received_ || !place_.may_be_silent())) {
        log_info("{}: it has not introduced itself in {} ms: dropped", peer_, stranger_patience_.count());
        return true;
    }
    if (now < deadline_) return false;
    log_warning("{}: it is too slow: dropped", peer_);
    return true;
}

// Without Asio: a call that finds bytes costs one system call, and no turn through the reactor.
std::optional<std::size_t> Connection::try_receive(std::span<std::byte> bytes) {
    const std::size_t size = std::min(bytes.size(), allowance_);
    for (;;) {
        const ssize_t count = ::recv(socket_.native_handle(), bytes.data(), size, MSG_DONTWAIT);
        if (count >= 0) {
            note_received(static_cast<std::size_t>(count));
            return static_cast<std::size_t>(count);
        }
        if (errno == EAGAIN) return std::nullopt;
        if (errno != EINTR) throw std::system_error(errno, std::generic_category());
    }
}

std::optional<std::size_t> Connection::try_receive(SplicePipe& pipe) {
    const auto count = pipe.fill(socket_.native_handle(), allowance_);
    note_received(count.value_or(0));
    return count;
}

void Connection::note_received(std::size_t count) {
    if (count == 0) return;
    has_received_ = true;
    note_bytes(count);
    if (allowance_ != SIZE_MAX) allowance_ -= count;
    if (patience_ != Clock::duration::zero()) expect_within(patience_);
}

asio::awaitable<void> Connection::wait_for_bytes() {
    co_await socket_.async_wait(asio::ip::tcp::socket::wait_read, asio::use_awaitable);
    begin_turn();
}

asio::awaitable<void> Connection::wait_for_room() {
    co_await socket_.async_wait(asio::ip::tcp::socket::wait_write, asio::use_awaitable);
    begin_turn();
}

// What is posted goes to the end of the queue. In it is the reactor, which adds who has become readable.
asio::awaitable<void> Connection::yield() {
    co_await asio::post(socket_.get_executor(), asio::use_awaitable);
    begin_turn();
}

asio::awaitable<std::size_t> Connection::receive(std::span<std::byte> bytes) {
    for (;;) {
        if (const auto count = try_receive(bytes)) co_return *count;
        co_await wait_for_bytes();
    }
}

asio::awaitable<void> Connection::send(UntrustedBytes bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count >= 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(count));
            note_bytes(static_cast<std::size_t>(count));
        } else if (errno == EAGAIN) {
            co_await wait_for_room();
        } else if (errno != EINTR) {
            throw std::system_error(errno, std::generic_category());
        }
    }
}

asio::awaitable<void> Connection::sleep(std::chrono::microseconds duration) {
    asio::steady_timer timer(socket_.get_executor(), duration);
    co_await timer.async_wait(asio::use_awaitable);
    if (!socket_.is_open()) throw std::system_error(ECANCELED, std::generic_category());
}

asio::awaitable<void> Connection::wait_for_disk() {
    const auto begin = Clock::now();
    if (!std::exchange(is_disk_full_, true)) {
        ++traffic_->disk_stalls;
        log_warning("{}: the disk is full, or no descriptor is left: its session waits", peer_);
    }
    co_await sleep(kDiskInterval);
    forgive(Clock::now() - begin);
    note_disk_wait();
}

void Connection::forgive(Clock::duration duration) {
    if (deadline_ != Clock::time_point::max()) deadline_ += duration;
}

// Where something is sent that nobody acknowledges, nothing else is sent to see whether the peer is there, and by
// itself the system tries for a quarter of an hour.
void Connection::expect_acknowledgements() {
    constexpr unsigned kPatienceMs = 90'000;
    ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kPatienceMs, sizeof kPatienceMs);
}

// Two connections wait for one another through the pairing table, so there is no event to wait for: it looks again.
// While it waits it does not read, and would not notice that its peer has gone: it asks the socket.
asio::awaitable<void> Connection::wait_for_other() {
    const auto begin = Clock::now();
    co_await sleep(kOtherInterval);
    pollfd peer{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
    const bool has_gone = ::poll(&peer, 1, 0) > 0;
    if (!has_gone) forgive(Clock::now() - begin);
    if (has_gone && deadline_ == Clock::time_point::max()) expect_within(kPatienceForOther);
}

void Connection::note_stored() {
    if (std::exchange(is_disk_full_, false)) log_warning("{}: there is room again", peer_);
}

// Bytes are moved to the front only when there is no room behind them, so a message that comes in many pieces is moved
// a few times and not with every piece.
std::span<std::byte> InputBuffer::room(std::size_t wanted) {
    if (begin_ == end_) begin_ = end_ = 0;
    if (begin_ != 0 && (end_ == bytes_.size() || bytes_.size() - begin_ < wanted)) {
        std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    // Only as far as the peer has really sent: what it promises is not believed.
    if (end_ == bytes_.size()) bytes_.resize(std::max(std::min(bytes_.size() * 2, wanted), bytes_.size() + 1));
    return std::span(bytes_).subspan(end_);
}

}  // namespace leat::relay
