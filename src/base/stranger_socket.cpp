#include "base/stranger_socket.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

namespace leat {
namespace {

// Looks at what recvmsg() would take of a socket into `message`, and leaves it there. Beside it must be no more room
// than is needed without descriptors: then none is made, and MSG_CTRUNC says that there are some. Of a stream, the part
// that was looked at has none, but what follows it may.
ssize_t peek(int socket, std::span<char> bytes, msghdr& message) {
    iovec part{bytes.data(), bytes.size()};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    ssize_t size = 0;
    do size = ::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
    while (size < 0 && errno == EINTR);
    message.msg_iov = nullptr;
    return size;
}

bool has_descriptors(const msghdr& message) { return (message.msg_flags & MSG_CTRUNC) != 0; }

bool is_stream(int socket) {
    int type = 0;
    socklen_t size = sizeof type;
    return ::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

// Whether something may have come that nobody has received. An error, of a peer that has gone, is told before what is
// there. A message of no bytes has credentials beside it (SO_PASSCRED), and the end, which looks like one, has none.
// Streams have no such messages.
bool has_unread(int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
    char byte = 0;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> credentials{};
    msghdr message{};
    message.msg_control = credentials.data();
    message.msg_controllen = credentials.size();
    const ssize_t size = peek(socket, std::span(&byte, 1), message);
    if (size < 0) return errno != EAGAIN;
    return size > 0 || (message.msg_controllen != 0 && !is_stream(socket));
}

// A number that a socket has while a thread copies the descriptors up to it.
class LowNumber {
  public:
    void reserve() {
        nothing_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        low_ = duplicate(nothing_.get());
    }
    // False: there is none.
    [[nodiscard]] bool give(const UniqueFd& socket) const { return put(socket); }
    void take_back() const { (void)put(nothing_); }
    [[nodiscard]] int get() const { return low_.get(); }

  private:
    [[nodiscard]] bool put(const UniqueFd& file) const {
        return low_.is_open() && ::dup3(file.get(), low_.get(), O_CLOEXEC) >= 0;
    }

    UniqueFd nothing_{};
    UniqueFd low_{};
};

LowNumber& low_number() {
    static LowNumber low;
    return low;
}

// A thread that is to be the last one that has a socket.
struct Leaver {
    UniqueFd socket;
    int last;                            // descriptor that it copies
    std::promise<bool> has_own_table{};  // of descriptors
    std::promise<void> may_end{};

    // Filters of system calls, as those of containers, may know only one of the two as harmless.
    void run() {
        const bool is_alone = ::close_range(static_cast<unsigned>(last) + 1, ~0U, CLOSE_RANGE_UNSHARE) == 0 ||
                              ::unshare(CLONE_FILES) == 0;
        has_own_table.set_value(is_alone);
        may_end.get_future().wait();
        if (!is_alone) socket.reset();
    }
};

// [socket(7), SO_LINGER]: what is closed as part of exit(2) lingers in the background. So it is for a thread whose
// table of descriptors is its own:
//
//     we          start it          close the socket     let it end
//     the thread            copies the table                        ends, with its table
//
// Where it cannot have one, it closes the socket in our place, and is held up alone. False: there is no thread.
bool close_in_background(UniqueFd& socket) {
    const LowNumber& low = low_number();
    const bool is_low = low.give(socket);
    const int last = is_low ? low.get() : socket.get();
    const auto leaver = std::make_shared<Leaver>(Leaver{.socket = std::move(socket), .last = last});
    try {
        std::thread([leaver] { leaver->run(); }).detach();
    } catch (const std::system_error&) {
        low.take_back();
        socket = std::move(leaver->socket);
        return false;
    }
    const bool is_alone = leaver->has_own_table.get_future().get();
    low.take_back();
    if (is_alone) leaver->socket.reset();
    leaver->may_end.set_value();
    return true;
}

// Those that no thread was to be had for stay open until there is one, or the process has ended.
void close_all_in_background(UniqueFd socket) {
    static std::mutex mutex;
    static auto* const waiting = new std::vector<UniqueFd>();
    const std::lock_guard lock(mutex);
    waiting->push_back(std::move(socket));
    while (!waiting->empty() && close_in_background(waiting->back())) waiting->pop_back();
}

}  // namespace

void StrangerSocket::reserve_low_number() { low_number().reserve(); }

bool StrangerSocket::brings_descriptors() const {
    char byte = 0;
    msghdr message{};
    return peek(get(), std::span(&byte, 1), message) >= 0 && has_descriptors(message);
}

ssize_t StrangerSocket::receive(std::span<char> bytes) const {
    msghdr message{};
    const ssize_t size = peek(get(), bytes, message);
    if (size <= 0) return size;
    if (!has_descriptors(message)) return ::recv(get(), bytes.data(), static_cast<std::size_t>(size), MSG_DONTWAIT);
    errno = ECANCELED;
    return -1;
}

StrangerSocket::StrangerSocket(UniqueFd socket) : socket_(std::move(socket)) {
    // [unix(7)]: urgent bytes bring descriptors, too. Nobody looks at them unless they come in their turn.
    const int yes = 1;
    ::setsockopt(get(), SOL_SOCKET, SO_OOBINLINE, &yes, sizeof yes);
}

StrangerSocket::~StrangerSocket() {
    if (!socket_.is_open()) return;
    ::shutdown(get(), SHUT_RD);  // nothing more comes
    if (has_unread(get())) close_all_in_background(std::move(socket_));
}

}  // namespace leat
