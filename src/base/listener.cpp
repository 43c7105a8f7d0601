#include "base/listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/descriptors.hpp"
#include "base/stranger_socket.hpp"

namespace leat {
namespace {

UniqueFd spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

Listener::Listener(UniqueFd socket, std::string what)
    : socket_(std::move(socket)), spare_(spare()), what_(std::move(what)) {}

Listener& Listener::operator=(Listener&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(spare_, other.spare_);
    std::swap(what_, other.what_);
    return *this;
}

// Who has not been accepted is closed with the socket.
Listener::~Listener() {
    if (!is_open()) return;
    ::shutdown(fd(), SHUT_RD);  // nobody else comes
    turn_all_away();
}

UniqueFd Listener::accept_now() const {
    return UniqueFd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

UniqueFd Listener::accept() {
    UniqueFd accepted = accept_now();
    if (!accepted.is_open() && (errno == EMFILE || errno == ENFILE)) {
        log_want_of_descriptors(what_ + " are turned away");
        turn_all_away();
        spare_ = spare();
    }
    return accepted;
}

// All that wait now, and no more than a queue holds: others may come as fast as these go. There may be no descriptor
// for one but the spare one's.
void Listener::turn_all_away() {
    spare_.reset();
    for (int count = 0; count < SOMAXCONN; ++count) {
        UniqueFd accepted = accept_now();
        if (!accepted.is_open()) return;
        const StrangerSocket turned_away(std::move(accepted));
    }
}

}  // namespace leat
