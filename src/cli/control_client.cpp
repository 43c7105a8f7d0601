#include "cli/control_client.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/local_socket.hpp"

namespace leat::cli {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kProtocolVersion = 1;
constexpr auto kRetryPeriod = 20ms;

tl::unexpected<Error> silence(std::chrono::milliseconds patience) {
    return fail(ErrorKind::kIo, "the session daemon did not answer within {} s: is it stopped?", patience / 1s);
}

Result<void> wait_for(int fd, short events, Clock::time_point deadline, std::chrono::milliseconds patience) {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        if (left <= 0ms) return silence(patience);
        pollfd wanted{fd, events, 0};
        const int count = ::poll(&wanted, 1, static_cast<int>(left / 1ms));
        if (count > 0) return {};
        if (count < 0 && errno != EINTR) return io_error("cannot wait for the session daemon");
    }
}

// Whoever can put a socket there must be trusted: it learns what we ask, and we print what it says.
Result<void> check_peer(int socket, const std::string& path) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return io_error("cannot find out whose session daemon listens at " + path);
    if (peer.uid == 0 || peer.uid == ::geteuid()) return {};
    return refused("{} belongs to user {}, not to you or root", path, peer.uid);
}

// kNotFound: nobody listens there, or, unless it `must_be_open`, not for this user.
Result<UniqueFd> connect_to(const std::string& path, bool must_be_open, Clock::time_point deadline,
                            std::chrono::milliseconds patience) {
    const LocalAddress address = LEAT_TRY(LocalAddress::of(path));
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.is_open()) return io_error("cannot create a socket");
    // EAGAIN: as many clients wait as the daemon allows. A daemon that is stopped accepts none.
    while (address.connect(socket.get()) != 0) {
        const bool is_closed = errno == EACCES && !must_be_open;
        if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR || is_closed)
            return not_found("nobody listens at {}", path);
        if (errno != EAGAIN && errno != EINTR) return io_error("cannot connect to " + path);
        if (Clock::now() >= deadline) return silence(patience);
        std::this_thread::sleep_for(kRetryPeriod);
    }
    LEAT_TRY(check_peer(socket.get(), path));
    return socket;
}

Result<Json> parse_line(const std::string& line) {
    auto parsed = parse_json(line);
    if (!parsed) return wrap("the session daemon's answer cannot be read", std::move(parsed).error());
    if (!parsed->is_object()) return corrupt("the session daemon's answer is not a JSON object");
    return parsed;
}

}  // namespace

Result<ControlClient> ControlClient::connect(const std::vector<fs::path>& sockets, std::chrono::milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    for (const fs::path& path : sockets) {
        const bool is_last = &path == &sockets.back();
        auto socket = connect_to(path, is_last, deadline, patience);
        if (socket) return ControlClient(*std::move(socket), patience);
        if (socket.error().kind != ErrorKind::kNotFound) return tl::unexpected(std::move(socket).error());
    }
    const auto is_closed = [](const fs::path& path) { return ::access(path.c_str(), W_OK) != 0 && errno == EACCES; };
    const auto closed = std::ranges::find_if(sockets, is_closed);
    if (closed != sockets.end())
        return not_found("{} is not for you, and you run no session daemon: leat create NAME starts one",
                         closed->string());
    return not_found(
        "no session daemon is running: leat create NAME starts one, and leat-sessiond --background one that goes on "
        "with the sessions of one that was killed");
}

Result<Json> ControlClient::ask(Json request, const TakeProgress& take_progress) {
    request["version"] = kProtocolVersion;
    const std::string line = LEAT_TRY(json_line(request)) + '\n';
    if (line.size() > kMaxRequest) return refused("a request of {} bytes is too long: 1 MiB is allowed", line.size());
    LEAT_TRY(send(line));
    for (;;) {
        Json answer = LEAT_TRY(parse_line(LEAT_TRY(receive_line())));
        if (const auto ok = answer.find("ok"); ok != answer.end() && ok->is_boolean()) return answer;
        const auto progress = answer.find("progress");
        if (progress == answer.end() || !progress->is_string())
            return corrupt("the session daemon's answer does not say whether it is ok");
        take_progress(progress->get<std::string>());
    }
}

Result<void> ControlClient::send(std::string_view bytes) const {
    auto deadline = Clock::now() + patience_;
    while (!bytes.empty()) {
        const ssize_t size = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (size >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(size));
            deadline = Clock::now() + patience_;
        } else if (errno == EAGAIN) {
            LEAT_TRY(wait_for(socket_.get(), POLLOUT, deadline, patience_));
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return {};  // it may have answered before it closed the connection: read on
        } else if (errno != EINTR) {
            return io_error("cannot send to the session daemon");
        }
    }
    return {};
}

Result<std::string> ControlClient::receive_line() {
    const auto deadline = Clock::now() + patience_;
    std::array<char, 65536> piece{};
    std::size_t searched = 0;
    for (;;) {
        if (const std::size_t end = input_.find('\n', searched); end != std::string::npos) {
            std::string line = input_.substr(0, end);
            input_.erase(0, end + 1);
            return line;
        }
        searched = input_.size();
        if (searched > kMaxAnswer) return refused("the session daemon's answer is longer than 64 MiB");
        LEAT_TRY(wait_for(socket_.get(), POLLIN, deadline, patience_));
        const ssize_t size = ::recv(socket_.get(), piece.data(), piece.size(), 0);
        if (size > 0) input_.append(piece.data(), static_cast<std::size_t>(size));
        if (size == 0 || (size < 0 && errno == ECONNRESET))
            return fail(ErrorKind::kIo, "the session daemon closed the connection {}",
                        input_.empty() ? "without an answer" : "in the middle of its answer");
        if (size < 0 && errno != EAGAIN && errno != EINTR) return io_error("cannot receive from the session daemon");
    }
}

}  // namespace leat::cli
