#include "base/listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/descriptors.hpp"

namespace leat {
namespace {

UniqueFd spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

Listener::Listener(UniqueFd socket, std::string what)
    : socket_(std::move(socket)), spare_(spare()), what_(std::move(what)) {}

UniqueFd Listener::accept_now() const {
    return UniqueFd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

UniqueFd Listener::accept() {
    UniqueFd accepted = accept_now();
    if (!accepted.is_open() && (errno == EMFILE || errno == ENFILE)) hang_up();
    return accepted;
}

// All that wait now.
void Listener::hang_up() {
    log_want_of_descriptors(what_ + " are turned away");
    spare_.reset();
    while (accept_now().is_open()) {
    }
    spare_ = spare();
}

}  // namespace leat
