#include "sessiond/control_server.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/local_socket.hpp"
#include "base/log.hpp"
#include "base/readable.hpp"

namespace leat::sessiond {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxRequest = 1U << 20;
// An answer that nobody reads.
constexpr std::size_t kMaxUnsent = 64U << 20;
// Requests of one client in one turn: others want to be served, too.
constexpr std::size_t kMaxRequestsAtOnce = 64;
// Arrays and objects in one another. The deepest request that makes sense has five.
constexpr int kMaxDepth = 16;

// Nothing: it is no JSON, or lies too deep for functions that call themselves for each level.
std::optional<json> parse_request(std::string_view line) {
    bool is_too_deep = false;
    const auto check = [&is_too_deep](int depth, json::parse_event_t, json&) {
        is_too_deep |= depth > kMaxDepth;
        return !is_too_deep;
    };
    json request = json::parse(line, check, false);
    return is_too_deep || request.is_discarded() ? std::nullopt : std::optional(std::move(request));
}

std::string verb_of(const std::optional<json>& request) {
    if (!request || !request->is_object()) return {};
    const auto verb = request->find("verb");
    return verb != request->end() && verb->is_string() ? verb->get<std::string>() : std::string();
}

Result<UniqueFd> listen_to_clients(const std::filesystem::path& path, std::optional<gid_t> group) {
    ::unlink(path.c_str());
    const mode_t mode = group ? 0660 : 0600;
    return listen_at(path, {.type = SOCK_STREAM | SOCK_NONBLOCK, .mode = mode, .group = group});
}

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::listen(const Parameters& parameters, Handler handler) {
    UniqueFd socket = LEAT_TRY(listen_to_clients(parameters.path, parameters.group));
    return take_over(std::move(socket), parameters, std::move(handler));
}

Result<void> ControlServer::listen_again() {
    accept_all();
    socket_ = Listener(LEAT_TRY(listen_to_clients(name_.path(), group_)), "clients");
    name_ = NamedFile(name_.path());
    return {};
}

std::unique_ptr<ControlServer> ControlServer::take_over(UniqueFd socket, const Parameters& parameters,
                                                        Handler handler) {
    return std::unique_ptr<ControlServer>(new ControlServer(std::move(socket), parameters, std::move(handler)));
}

ControlServer::~ControlServer() {
    if (socket_.is_open()) name_.remove();
}

UniqueFd ControlServer::release() {
    connections_.clear();
    return socket_.release();
}

bool ControlServer::is_about_to_ask(const Connection& connection) const {
    return connection.verb.empty() && Clock::now() - connection.silent_since < speaks_within_;
}

bool ControlServer::owes_answers() const {
    return std::ranges::any_of(connections_, [this](const auto& connection) {
        return !connection->is_over && (connection->is_busy || is_about_to_ask(*connection) ||
                                        !connection->output.empty() || !connection->input.empty());
    });
}

std::vector<pollfd> ControlServer::wanted() const {
    std::vector<pollfd> wanted{{is_door_closed_ || !has_room() ? -1 : socket_.fd(), POLLIN, 0}};
    for (const auto& connection : connections_) {
        short events = connection->is_busy ? 0 : POLLIN;
        if (!connection->output.empty()) events = POLLOUT;
        // poll() tells of a client that is gone whatever we want: while its request is being done, that is no news.
        wanted.push_back({events == 0 ? -1 : connection->socket.get(), events, 0});
    }
    return wanted;
}

ControlServer::Clock::time_point ControlServer::deadline() const {
    auto deadline = Clock::time_point::max();
    const bool do_newcomers_wait = !has_room();
    for (const auto& connection : connections_) {
        if (may_go_on(*connection) || connection->is_over) return Clock::time_point{};
        deadline = std::min(
            deadline, connection->is_busy ? connection->progress_due : connection->silent_since + client_patience_);
        // Who has not asked yet may have to go then. The clock is not asked whether that is past: then it is due now.
        if (do_newcomers_wait && !connection->is_busy && connection->verb.empty() && connection->output.empty())
            deadline = std::min(deadline, connection->silent_since + speaks_within_);
    }
    return deadline;
}

void ControlServer::run() {
    if (!is_door_closed_) accept_all();
    const auto connections = connections_;
    for (const auto& connection : connections) {
        send(*connection);
        if (connection->is_busy)
            tell_progress(*connection);
        else
            receive(connection);
    }
    const auto now = Clock::now();
    connections_.remove_if([this, now](const auto& connection) {
        if (connection->is_over) return true;
        return !connection->is_busy && !may_go_on(*connection) && now - connection->silent_since > client_patience_;
    });
    // Those that have their answers by now may make room.
    if (!is_door_closed_) accept_all();
}

// Who waits for an answer gets it, also to what is not read yet, and who has just come is heard: newcomers wait in the
// kernel's queue meanwhile.
bool ControlServer::may_have_to_go(const Connection& connection) const {
    return !connection.is_busy && connection.output.empty() && !is_about_to_ask(connection) && !may_go_on(connection) &&
           !is_readable(connection.socket.get());
}

// Nobody, or who has been silent for longest.
ControlServer::Connections::const_iterator ControlServer::find_to_go() const {
    auto oldest = connections_.end();
    for (auto it = connections_.begin(); it != connections_.end(); ++it)
        if (may_have_to_go(**it) && (oldest == connections_.end() || (*it)->silent_since < (*oldest)->silent_since))
            oldest = it;
    return oldest;
}

bool ControlServer::has_room() const {
    return connections_.size() < most_clients_ || find_to_go() != connections_.end();
}

bool ControlServer::is_welcome(const ucred& peer) const {
    return peer.uid == 0 || peer.uid == ::geteuid() || group_.has_value();
}

void ControlServer::accept_all() {
    // Asked first, because an accept4() that finds nobody is dear.
    while (is_readable(socket_.fd())) {
        const bool is_full = connections_.size() >= most_clients_;
        const auto goes = is_full ? find_to_go() : connections_.end();
        if (is_full && goes == connections_.end()) return;
        UniqueFd accepted = socket_.accept();
        if (!accepted.is_open()) return;
        StrangerSocket socket(std::move(accepted));
        ucred peer{};
        socklen_t size = sizeof peer;
        if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || !is_welcome(peer)) continue;
        if (is_full) connections_.erase(goes);
        connections_.push_back(std::make_shared<Connection>(Connection{
            .socket = std::move(socket), .client = {peer.uid, peer.gid, peer.pid}, .silent_since = Clock::now()}));
    }
}

void ControlServer::receive(const std::shared_ptr<Connection>& connection) {
    std::array<char, 16384> bytes{};
    // Whoever does not read our answers need not send more.
    if (!connection->output.empty()) return;
    while (!may_go_on(*connection)) {
        const ssize_t size = connection->socket.receive(bytes);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) break;
        // Gone, or it sends no more: then all that it has asked is answered, or we would not read.
        if (size <= 0) {
            connection->is_over = true;
            return;
        }
        connection->silent_since = Clock::now();
        connection->input.append(bytes.data(), static_cast<std::size_t>(size));
        if (connection->input.size() > kMaxRequest) break;
    }
    do_requests(connection);
    if (connection->input.size() <= kMaxRequest) return;
    const Error error{ErrorKind::kCorrupt, fmt::format("a request has at most {} bytes", kMaxRequest)};
    connection->output += answer_error(error).dump() + '\n';
    send(*connection);
    connection->is_over = true;
}

// Whether there is a whole request to be done now.
bool ControlServer::may_go_on(const Connection& connection) {
    return !connection.is_busy && !connection.is_over && connection.output.empty() &&
           connection.input.find('\n') != std::string::npos;
}

// One after the other.
void ControlServer::do_requests(const std::shared_ptr<Connection>& connection) {
    for (std::size_t left = kMaxRequestsAtOnce; left != 0 && may_go_on(*connection); --left) {
        const std::size_t end = connection->input.find('\n');
        const std::optional<json> request = parse_request(std::string_view(connection->input).substr(0, end));
        connection->input.erase(0, end + 1);
        begin_request(*connection, request);
        const auto reply = [weak = std::weak_ptr(connection)](const json& answer) {
            const auto asked = weak.lock();
            if (asked == nullptr) return;
            asked->is_busy = false;
            asked->silent_since = Clock::now();
            asked->output += answer.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
            send(*asked);
        };
        if (request)
            handler_(connection->client, *request, reply);
        else
            reply(answer_error({ErrorKind::kCorrupt, "the request is no JSON, or too deep"}));
    }
}

void ControlServer::begin_request(Connection& connection, const std::optional<json>& request) const {
    connection.is_busy = true;
    connection.busy_since = Clock::now();
    connection.progress_due = connection.busy_since + progress_period_;
    connection.verb = verb_of(request);
}

// Clients take a daemon that says nothing for one that is stopped.
void ControlServer::tell_progress(Connection& connection) const {
    const auto now = Clock::now();
    if (now < connection.progress_due) return;
    connection.progress_due = now + progress_period_;
    if (!connection.output.empty()) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - connection.busy_since);
    const json line = {{"progress", fmt::format("{}: under way for {} s", connection.verb, seconds.count())}};
    connection.output = line.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
    send(connection);
}

void ControlServer::send(Connection& connection) {
    while (!connection.output.empty()) {
        const ssize_t size =
            ::send(connection.socket.get(), connection.output.data(), connection.output.size(), MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) break;
        if (size < 0) {
            connection.is_over = true;
            return;
        }
        connection.output.erase(0, static_cast<std::size_t>(size));
    }
    if (connection.output.size() > kMaxUnsent) connection.is_over = true;
}

}  // namespace leat::sessiond
