#include "sessiond/keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "base/check.hpp"
#include "base/descriptors.hpp"
#include "base/fd_passing.hpp"
#include "base/local_socket.hpp"
#include "base/log.hpp"
#include "base/readable.hpp"

namespace leat::sessiond {
namespace {

namespace fs = std::filesystem;

// A message is this and a name; one of the keeper's has no operation.
struct MessageHead {
    std::uint32_t version;
    std::uint32_t operation;
};
constexpr std::uint32_t kKeeperVersion = 1;
constexpr std::size_t kMaxKeptName = 64;

// For how long programs that start wait for another daemon.
std::chrono::seconds restart_patience() {
    constexpr std::chrono::seconds kDefault{10};
    const char* const text = std::getenv("LEAT_RESTART_PATIENCE");  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string_view digits = text == nullptr ? "" : text;
    int number = -1;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
    const bool is_number = error == std::errc() && end == digits.end() && number >= 0;
    return is_number ? std::chrono::seconds(number) : kDefault;
}

// A keeper that does not take a message for so long is none.
constexpr timeval kPatience{.tv_sec = 5, .tv_usec = 0};

struct Received {
    MessageHead head{};
    std::string name{};
    UniqueFd fd{};
    bool has_lost_fd = false;
};

bool send_message(int socket, std::uint32_t operation, const std::string& name, int fd) {
    LEAT_CHECK(name.size() <= kMaxKeptName);
    std::array<std::byte, sizeof(MessageHead) + kMaxKeptName> bytes{};
    const MessageHead head{kKeeperVersion, operation};
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, name.data(), name.size());
    const std::span<const int> fds(&fd, fd < 0 ? 0 : 1);
    return send_with_fds(socket, std::span(bytes).first(sizeof head + name.size()), fds) > 0;
}

// Why there is no message.
enum class Silence { kHungUp, kTimedOut, kNonsense };

// A keeper that ends with a message unread resets the connection.
Silence silence_of(const MessageWithFds& message) {
    if (message.size == 0 || (message.size < 0 && errno == ECONNRESET)) return Silence::kHungUp;
    return message.size < 0 && errno == EAGAIN ? Silence::kTimedOut : Silence::kNonsense;
}

tl::expected<Received, Silence> receive_message(int socket) {
    std::array<std::byte, sizeof(MessageHead) + kMaxKeptName> bytes{};
    const MessageWithFds message = receive_with_fds(socket, bytes, 0);
    const Silence silence = silence_of(message);
    Received received;
    for (std::size_t i = 0; i < message.fd_count; ++i) {
        UniqueFd fd(message.fds.at(i));
        if (i == 0) received.fd = std::move(fd);
    }
    received.has_lost_fd = message.has_lost_fds;
    if (message.size < static_cast<ssize_t>(sizeof(MessageHead)) || message.is_cut) return tl::unexpected(silence);
    std::memcpy(&received.head, bytes.data(), sizeof(MessageHead));
    const auto size = static_cast<std::size_t>(message.size);
    // NOLINTNEXTLINE(*-reinterpret-cast)
    received.name.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof(MessageHead), size - sizeof(MessageHead));
    if (received.head.version != kKeeperVersion) return tl::unexpected(Silence::kNonsense);
    return received;
}

}  // namespace

// The other end: one thread, no log, nothing but system calls and a map.
class KeeperProcess {
  public:
    KeeperProcess(int listener, NamedFile socket)
        : listener_(listener), name_(std::move(socket)), watch_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
        (void)::inotify_add_watch(watch_.get(), name_.path().c_str(), IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF);
        // It may have gone before we watched it.
        look_at_socket();
    }

    void run() {
        while (!is_over_) turn();
    }

  private:
    using Clock = std::chrono::steady_clock;

    void turn() {
        // One daemon after the other: what the one before has sent comes first.
        std::array<pollfd, 3> wanted{pollfd{client_.is_open() ? -1 : listener_, POLLIN, 0},
                                     pollfd{client_.get(), POLLIN, 0}, pollfd{watch_.get(), POLLIN, 0}};
        if (::poll(wanted.data(), wanted.size(), timeout()) < 0) return;
        if (wanted[0].revents != 0) client_ = UniqueFd(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
        if (timeout() == 0) let_go_of_active();
        if (wanted[1].revents != 0) serve();
        if (wanted[2].revents != 0) look_at_socket();
    }

    // ms, as poll() takes them: until nobody need wait for another daemon any more.
    [[nodiscard]] int timeout() const {
        if (client_.is_open() || !kept_.contains(Keeper::kActive)) return -1;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(active_until_ - Clock::now());
        return static_cast<int>(std::max<std::int64_t>(0, left.count()));
    }

    void let_go_of_active() {
        kept_.erase(Keeper::kActive);
        is_over_ |= kept_.empty();
    }

    void look_at_socket() {
        std::array<char, 4096> ignored{};
        (void)!::read(watch_.get(), ignored.data(), ignored.size());
        is_over_ |= !name_.is_there();
    }

    void serve() {
        auto message = receive_message(client_.get());
        if (!message) {
            client_.reset();
            // One that has not come so far as to put it changes nothing.
            if (std::exchange(has_put_active_, false)) active_until_ = Clock::now() + restart_patience_;
            is_over_ |= kept_.empty() || !name_.is_there();  // nobody will come
            return;
        }
        switch (static_cast<Keeper::Operation>(message->head.operation)) {
            case Keeper::Operation::kPut:
                has_put_active_ |= message->name == Keeper::kActive;
                if (message->fd.is_open()) kept_.insert_or_assign(message->name, std::move(message->fd));
                // There was no descriptor left for it. What it would replace is old: the daemon finds us gone.
                else if (message->has_lost_fd)
                    is_over_ = true;
                return;
            case Keeper::Operation::kDrop:
                std::erase_if(kept_, [&](const auto& kept) { return kept.first.starts_with(message->name); });
                return;
            case Keeper::Operation::kTakeAll:
                for (const auto& [name, fd] : kept_) (void)send_message(client_.get(), 0, name, fd.get());
                (void)send_message(client_.get(), 0, "", -1);
                return;
            case Keeper::Operation::kEnd:
                is_over_ = true;
                return;
        }
    }

    int listener_;
    NamedFile name_;  // of the listener
    UniqueFd watch_;
    UniqueFd client_;
    std::map<std::string, UniqueFd> kept_;
    bool has_put_active_ = false;       // the client
    Clock::time_point active_until_{};  // while there is none
    const std::chrono::seconds restart_patience_ = restart_patience();
    bool is_over_ = false;
};

namespace {

// Nothing of the daemon's goes with it but the listening socket: no lock, no terminal, no log.
[[noreturn]] void become_keeper(int listener, const NamedFile& socket) {
    constexpr int kFirst = 3;
    ::setsid();
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    (void)::prctl(PR_SET_NAME, "leat-keeper");
    const int nothing = ::open("/dev/null", O_RDWR);
    for (int standard = 0; standard < kFirst; ++standard) ::dup2(nothing, standard);
    if (listener != kFirst) ::dup2(listener, kFirst);
    if (::close_range(kFirst + 1, ~0U, 0) != 0)
        for (int fd = kFirst + 1; fd < ::sysconf(_SC_OPEN_MAX); ++fd) ::close(fd);
    (void)!::chdir("/");
    KeeperProcess(kFirst, socket).run();
    ::_exit(0);
}

// Two forks: it is nobody's child, so nobody has to wait for it.
Result<void> start_process(int listener, const NamedFile& socket) {
    const pid_t child = ::fork();
    if (child < 0) return io_error("cannot start the keeper");
    if (child == 0) {
        const pid_t keeper = ::fork();
        if (keeper == 0) become_keeper(listener, socket);
        ::_exit(keeper < 0 ? 1 : 0);
    }
    int exit_status = 0;
    while (::waitpid(child, &exit_status, 0) < 0 && errno == EINTR) {
    }
    return exit_status == 0 ? Result<void>() : refused("cannot start the keeper");
}

// Of a keeper that lives, and has what this daemon cannot have.
tl::unexpected<Error> cannot_take_over(const fs::path& socket, std::string_view why) {
    return refused(
        "cannot take over the sessions of the daemon before from their keeper: {}, or remove {} to lose them", why,
        socket.string());
}

tl::unexpected<Error> has_few_descriptors(const fs::path& socket) {
    return cannot_take_over(
        socket, fmt::format("it has more open files than the limit of {} allows: raise it (RLIMIT_NOFILE: ulimit -n, "
                            "LimitNOFILE= of systemd)",
                            descriptor_limit()));
}

tl::unexpected<Error> stands_still(const fs::path& socket) {
    return cannot_take_over(
        socket, fmt::format("leat-keeper has not answered for {} s: let it go on (SIGCONT)", kPatience.tv_sec));
}

// Nothing: nobody listens there, or somebody else. The patience comes first: where several daemons have given up,
// connect() waits, too.
Result<std::optional<UniqueFd>> connect(const fs::path& socket) {
    const LocalAddress address = LEAT_TRY(LocalAddress::of(socket));
    UniqueFd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!client.is_open()) return io_error("cannot make a socket for the keeper");
    for (const int direction : {SO_SNDTIMEO, SO_RCVTIMEO})
        ::setsockopt(client.get(), SOL_SOCKET, direction, &kPatience, sizeof kPatience);
    int connected = 0;
    do connected = address.connect(client.get());
    while (connected != 0 && errno == EINTR);
    if (connected != 0 && errno == EAGAIN) return stands_still(socket);
    ucred peer{};
    socklen_t size = sizeof peer;
    if (connected != 0 || ::getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != ::geteuid())
        return std::nullopt;
    return client;
}

}  // namespace

// After a sudden end, what is left of it is of no use: the next one begins with nothing.
Result<std::optional<Keeper>> Keeper::find(const fs::path& directory, Kept& kept) {
    const fs::path socket = directory / wire::kKeeperSocketName;
    auto client = LEAT_TRY(connect(socket));
    if (!client) return std::nullopt;
    Keeper keeper(*std::move(client), socket);
    auto all = LEAT_TRY(keeper.take_all());
    if (!all) return std::nullopt;
    // Each session needs some more. Without, it would be lost, and the keeper told to drop it.
    if (are_descriptors_scarce()) return has_few_descriptors(socket);
    kept = *std::move(all);
    return keeper;
}

bool Keeper::lives_in(const fs::path& directory) {
    const auto client = connect(directory / wire::kKeeperSocketName);
    return !client || *client;
}

Result<Keeper> Keeper::start(const fs::path& directory) {
    const fs::path socket = directory / wire::kKeeperSocketName;
    ::unlink(socket.c_str());
    const UniqueFd listener = LEAT_TRY(listen_at(socket, {.type = SOCK_SEQPACKET, .backlog = 4}));
    LEAT_TRY(start_process(listener.get(), NamedFile(socket)));
    auto client = LEAT_TRY(connect(socket));
    if (!client) return refused("cannot reach the keeper");
    Keeper keeper(*std::move(client), socket);
    // It answers: so it has taken its place.
    if (!LEAT_TRY(keeper.take_all())) return refused("the keeper has ended");
    return keeper;
}

Result<std::optional<Keeper::Kept>> Keeper::take_all() {
    if (!send_message(socket_.get(), static_cast<std::uint32_t>(Operation::kTakeAll), "", -1)) return std::nullopt;
    Kept all;
    for (;;) {
        auto message = receive_message(socket_.get());
        if (!message && message.error() == Silence::kHungUp) return std::nullopt;
        if (!message && message.error() == Silence::kTimedOut) return stands_still(name_.path());
        if (!message)
            return cannot_take_over(name_.path(),
                                    "it does not speak as this version does: start the version of before");
        if (message->name.empty()) return all;
        if (!message->fd.is_open()) return has_few_descriptors(name_.path());
        all.insert_or_assign(message->name, std::move(message->fd));
    }
}

Keeper::Keeper(UniqueFd socket, std::filesystem::path path) : socket_(std::move(socket)), name_(std::move(path)) {}

void Keeper::put(const std::string& name, int fd) { (void)send(Operation::kPut, name, fd); }

void Keeper::drop(const std::string& prefix) { (void)send(Operation::kDrop, prefix); }

// The socket goes first: a daemon that starts now makes another one. The keeper may see that and end before it is told.
void Keeper::end() {
    name_.remove();
    if (socket_.is_open()) (void)send_message(socket_.get(), static_cast<std::uint32_t>(Operation::kEnd), "", -1);
    socket_.reset();
}

tl::unexpected<Error> Keeper::has_no_room(std::string_view why) const {
    const bool is_of_files = why.find("open files") != std::string_view::npos;
    return cannot_take_over(
        name_.path(),
        fmt::format("{}: make room{}", why,
                    is_of_files ? " (for open files: RLIMIT_NOFILE, ulimit -n, LimitNOFILE= of systemd)" : ""));
}

// It says nothing unless it is asked: what can be read is the end.
bool Keeper::is_there() const { return socket_.is_open() && !is_readable(socket_.get()) && name_.is_there(); }

bool Keeper::send(Operation operation, const std::string& name, int fd) {
    if (!socket_.is_open()) return false;
    if (send_message(socket_.get(), static_cast<std::uint32_t>(operation), name, fd)) return true;
    log_error("the keeper is gone: sessions will not survive this daemon, if it is killed");
    // It may only stand still. What it knows grows old: without its socket it ends when it wakes up, and the next
    // daemon does not go on with that.
    name_.remove();
    socket_.reset();
    return false;
}

}  // namespace leat::sessiond
