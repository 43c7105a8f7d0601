#include "relay/server.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <ranges>
#include <thread>

#include "base/descriptors.hpp"
#include "base/log.hpp"
#include "relay/ingest/control_connection.hpp"
#include "relay/ingest/data_connection.hpp"
#include "relay/live/viewer_connection.hpp"
#include "relay/metrics.hpp"

namespace leat::relay {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;

// What waits too long for its other half is looked for this often.
constexpr auto kHousekeeping = 1s;
constexpr auto kAcceptPause = 100ms;
// At the end we wait so long for data that has not come yet, and so long for the disk to take the data that has.
constexpr auto kPatienceAtEnd = 1s;
constexpr auto kPatienceWithDisk = 10s;
constexpr auto kDrainInterval = 5ms;
constexpr std::size_t kMostPortsTried = 64;

Result<void> listen(tcp::acceptor& acceptor, const asio::ip::address& address, std::uint16_t port) {
    const tcp::endpoint endpoint(address, port);
    asio::error_code error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
    if (!error) return {};
    return fail(ErrorKind::kIo, "cannot listen on {} port {}: {}: choose others with -C, -D, -L, or --bind and --ports",
                address.to_string(), port, error.message());
}

Result<asio::ip::address> parse_address(const std::string& text) {
    asio::error_code error;
    const auto address = asio::ip::make_address(text, error);
    if (error) return refused("\"{}\" is no IP address", text);
    return address;
}

// What time has decided, or a full disk has put off. An error is told to whoever writes to that stream next.
void commit_and_show(StoredSession& session) {
    Changes changes;
    for (const auto& stream : session.open_streams()) changes.add(stream);
    bool is_visible = false;
    while (!changes.is_empty()) {
        const auto flushed = changes.flush(session, std::chrono::steady_clock::now());
        if (is_disk_full(flushed)) break;
        is_visible = flushed.value_or(false) || is_visible;
    }
    if (is_visible) session.note_change();
    if (const auto directory = session.directory()) directory->settle();
}

// Forgets those that have ended.
std::size_t count_open(std::vector<std::weak_ptr<Connection>>& connections) {
    std::erase_if(connections, [](const auto& connection) { return connection.expired(); });
    return connections.size();
}

template <class Function>
void for_each_open(const std::vector<std::weak_ptr<Connection>>& connections, Function function) {
    for (const auto& entry : connections)
        if (const auto connection = entry.lock()) function(*connection);
}

// Accepted on one thread, served on another.
tcp::socket move_to(asio::io_context& context, tcp::socket socket) {
    asio::error_code ignored;
    const tcp::endpoint endpoint = socket.local_endpoint(ignored);
    tcp::socket moved(context);
    const int handle = socket.release(ignored);
    moved.assign(endpoint.protocol(), handle, ignored);
    if (!moved.is_open()) ::close(handle);
    return moved;
}

// Those that we may run on.
std::size_t cpu_count() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<std::size_t>(CPU_COUNT(&set)) : 1;
}

// The peer gets nothing, and there is nothing wrong with it.
bool is_exhaustion(const asio::error_code& error) {
    return error == asio::error::no_descriptors || error.value() == ENFILE || error == asio::error::no_buffer_space ||
           error == asio::error::no_memory;
}

}  // namespace

Server::Server(const Parameters& parameters, ConfinedDirectory output, FileKeepers keepers)
    : stranger_patience_(parameters.stranger_patience),
      admission_(std::make_shared<Admission>(
          parameters.max_connections != 0 ? parameters.max_connections : default_max_connections(descriptor_limit()))),
      spare_descriptor_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      contexts_(cpu_count()),
      relay_(std::move(output), std::move(keepers)) {
    // Each has its reactor, with its descriptors, from the start.
    for (Context& context : contexts_) asio::steady_timer made(context);
    relay_.set_policy({.is_clear_allowed = parameters.is_clear_allowed, .grouping = parameters.grouping});
}

Server::~Server() = default;

std::size_t Server::default_max_connections(std::size_t descriptors) {
    constexpr std::size_t kOurOwn = 64;
    constexpr std::size_t kMost = 16384;  // a connection also takes memory
    const std::size_t free = descriptors - std::min(descriptors, kOurOwn);
    return std::clamp(free / 4, Admission::kFewestConnections, kMost);
}

std::string Server::endpoint_of(const tcp::acceptor& acceptor) {
    asio::error_code error;
    const tcp::endpoint endpoint = acceptor.local_endpoint(error);
    const std::string address = endpoint.address().to_string();
    return fmt::format(fmt::runtime(endpoint.address().is_v6() ? "[{}]:{}" : "{}:{}"), address, endpoint.port());
}

Result<std::unique_ptr<Server>> Server::create(const Parameters& parameters) {
    const auto address_or = [&](const std::string& own) {
        return parse_address(own.empty() ? parameters.address : own);
    };
    const auto control = LEAT_TRY(address_or(parameters.control_address));
    const auto data = LEAT_TRY(address_or(parameters.data_address));
    const auto live = LEAT_TRY(address_or(parameters.live_address));
    ConfinedDirectory output = LEAT_TRY(ConfinedDirectory::open_root(parameters.output));
    // First: it forks.
    FileKeepers keepers{.guard = LEAT_TRY(FileGuard::start())};
    keepers.sync = std::make_shared<DiskSync>(parameters.sync);
    std::unique_ptr<Server> server(new Server(parameters, std::move(output), std::move(keepers)));
    LEAT_TRY(listen(server->control_, control, parameters.control_port));
    LEAT_TRY(server->listen_for_data(data, parameters.data_port));
    LEAT_TRY(listen(server->live_, live, parameters.live_port));
    if (!parameters.metrics.empty())
        server->metrics_ = LEAT_TRY(MetricsThread::start(
            parameters.metrics, [made = server.get()] { return metrics_page(made->relay_, *made->admission_); }));
    return server;
}

// Datagrams come to the port of the data connections. If the system chooses it, it may choose one that some other
// program takes datagrams on. Those ports stay ours until one is found that is free for both, so that none is tried
// twice.
Result<void> Server::listen_for_data(const asio::ip::address& address, std::uint16_t port) {
    std::vector<tcp::acceptor> tried;
    for (;;) {
        LEAT_TRY(listen(data_, address, port));
        const asio::ip::udp::endpoint endpoint(address, data_port());
        asio::ip::udp::socket socket(contexts_.back());
        asio::error_code error;
        socket.open(endpoint.protocol(), error);
        if (!error) socket.bind(endpoint, error);
        if (!error) {
            datagrams_.emplace(std::move(socket), relay_);
            return {};
        }
        if (port != 0 || error != asio::error::address_in_use || tried.size() == kMostPortsTried)
            return fail(ErrorKind::kIo, "cannot listen for datagrams on {} port {}: {}: choose others with --ports",
                        address.to_string(), data_port(), error.message());
        tried.push_back(std::exchange(data_, tcp::acceptor(context())));
    }
}

template <class ChooseThread, class MakeConnection>
void Server::serve(Admission::Port port, tcp::acceptor& acceptor, Connections& connections, ChooseThread choose,
                   MakeConnection make) {
    const auto accept_all = [this, port, &acceptor, &connections, choose, make]() -> asio::awaitable<void> {
        for (std::size_t number = 0; acceptor.is_open();) {
            asio::error_code error;
            tcp::socket socket(context());
            tcp::endpoint peer;
            co_await acceptor.async_accept(socket, peer, asio::redirect_error(asio::use_awaitable, error));
            if (!acceptor.is_open()) break;
            if (is_exhaustion(error)) {
                turn_one_away(port, acceptor, error);
                asio::steady_timer pause(context(), kAcceptPause);
                co_await pause.async_wait(asio::use_awaitable);
            }
            if (error) continue;
            auto place = admission_->admit(port, peer.address());
            if (!place) {
                ++relay_.traffic().refused_connections;
                complain_(place.error().message);
                continue;
            }
            const std::size_t thread = choose(number++) % contexts_.size();
            const auto connection = make(move_to(contexts_[thread], std::move(socket)), thread);
            {
                const std::lock_guard lock(connections_mutex_);
                if (connections.size() == connections.capacity()) count_open(connections);
                connections.push_back(connection);
            }
            connection->start(std::move(*place), stranger_patience_);
        }
    };
    asio::co_spawn(context(), accept_all, asio::detached);
}

// Out of descriptors. Who waits in the queue would wait for ever, and we would be told of it again and again.
void Server::turn_one_away(Admission::Port port, tcp::acceptor& acceptor, const asio::error_code& reason) {
    ++relay_.traffic().refused_connections;
    complain_(fmt::format("a connection was turned away: {}: raise the limit of open files", reason.message()));
    if (admission_->drop_stranger(port)) return;  // there will be a descriptor soon
    spare_descriptor_.reset();
    const UniqueFd turned_away(::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    spare_descriptor_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void Server::Complaint::operator()(const std::string& message) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next) {
        ++suppressed;
        return;
    }
    next = now + 1s;
    if (suppressed == 0)
        log_warning("{}", message);
    else
        log_warning("{} ({} more since the last such message)", message, suppressed);
    suppressed = 0;
}

// The two connections of a session are on different threads, and so are the data connections of two sessions. But those
// of a live session, and its first viewer, share one: an event passes through all of them, and each change of threads
// would cost it a wake-up. Which session a new connection is for can only be guessed; a wrong guess costs such a
// wake-up.
void Server::run() {
    serve(
        Admission::Port::kControl, control_, controls_, [](std::size_t number) { return number + 1; },
        [this](tcp::socket socket, std::size_t thread) -> std::shared_ptr<Connection> {
            return std::make_shared<ControlConnection>(std::move(socket), relay_, thread);
        });
    serve(
        Admission::Port::kData, data_, datas_,
        [this](std::size_t number) { return thread_of_next_data().value_or(number); },
        [this](tcp::socket socket, std::size_t /*thread*/) -> std::shared_ptr<Connection> {
            return std::make_shared<DataConnection>(std::move(socket), relay_);
        });
    serve(
        Admission::Port::kLive, live_, viewers_,
        [this](std::size_t number) { return thread_of_next_viewer().value_or(number + 1); },
        [this](tcp::socket socket, std::size_t /*thread*/) -> std::shared_ptr<Connection> {
            return std::make_shared<ViewerConnection>(std::move(socket), relay_);
        });
    asio::co_spawn(datagrams_->executor(), datagrams_->receive(), asio::detached);
    asio::co_spawn(datagrams_->executor(), datagrams_->expire(), asio::detached);
    asio::co_spawn(context(), keep_house(), asio::detached);
    for (Context& context : contexts_) guards_.push_back(asio::make_work_guard(context));
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < contexts_.size(); ++i) threads.emplace_back([this, i] { contexts_[i].run(); });
    contexts_.front().run();
    for (std::thread& thread : threads) thread.join();
}

// A producer opens its data connection right after it has made its session.
std::optional<std::size_t> Server::thread_of_next_data() const {
    const auto sessions = relay_.sessions();
    if (sessions.empty() || !sessions.back()->is_live()) return std::nullopt;
    return sessions.back()->locked([](const SessionState& state) {
        return state.has_data_connection ? std::nullopt : std::optional(state.thread);
    });
}

// More viewers of a session are spread over the threads.
std::optional<std::size_t> Server::thread_of_next_viewer() const {
    for (const auto& session : std::views::reverse(relay_.sessions()))
        if (session->is_live() && session->viewers == 0)
            return session->locked([](const SessionState& state) { return state.thread; });
    return std::nullopt;
}

asio::awaitable<void> Server::keep_house() {
    while (control_.is_open()) {
        asio::error_code ignored;
        housekeeping_.expires_after(kHousekeeping);
        co_await housekeeping_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
        for (const auto& session : relay_.sessions()) {
            commit_and_show(*session);
            co_await asio::post(context(),
                                asio::use_awaitable);  // between two sessions the thread's connections have a turn
        }
        end_sessions();
    }
}

// Those whose control connection has ended, once nothing more will come for them.
void Server::end_sessions() {
    for (const auto& session : relay_.ending_sessions()) {
        if (!session->finish_streams(std::chrono::steady_clock::now())) continue;
        session->note_change();
        relay_.forget(session);
    }
}

// Of an index that we have acknowledged, the data may still be on its way: control connections end first, and their
// sessions when that data is here.
void Server::stop() {
    asio::post(context(), [this] {
        asio::error_code ignored;
        control_.close(ignored);
        live_.close(ignored);
        housekeeping_.cancel(ignored);
        {
            const std::lock_guard lock(connections_mutex_);
            for_each_open(controls_, [](Connection& connection) { connection.drain(); });
        }
        stop_when_drained(std::chrono::steady_clock::now());
    });
}

// Nothing is awaited any more once all connections have ended: each ends its session, which puts files in order.
void Server::stop_when_drained(std::chrono::steady_clock::time_point begin) {
    end_sessions();
    const auto elapsed = std::chrono::steady_clock::now() - begin;
    {
        const std::lock_guard lock(connections_mutex_);
        const bool is_drained = count_open(controls_) == 0 && relay_.ending_sessions().empty();
        if (is_drained || elapsed >= kPatienceWithDisk) return stop_all();
        if (elapsed >= kPatienceAtEnd) for_each_open(datas_, [](Connection& connection) { connection.drain(); });
    }
    draining_.expires_after(kDrainInterval);
    draining_.async_wait([this, begin](const asio::error_code& error) {
        if (!error) stop_when_drained(begin);
    });
}

// Closing is posted to each connection's own thread; the threads end when nothing is left on them, as the guards are
// gone.
void Server::stop_all() {
    // The port of data not before: some may wait on a connection that we have not even accepted.
    asio::error_code ignored;
    data_.close(ignored);
    guards_.clear();
    for (const Connections* connections : {&controls_, &datas_, &viewers_})
        for_each_open(*connections, [](Connection& connection) { connection.stop(); });
    asio::post(datagrams_->executor(), [this] { datagrams_->close(); });
}

}  // namespace leat::relay
