#include "base/local_socket.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace leat {
namespace {

UniqueFd local_socket(int type) { return UniqueFd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0)); }

}  // namespace

Result<LocalAddress> LocalAddress::of(const std::filesystem::path& path) {
    LocalAddress local;
    const std::string& name = path.native();
    if (name.size() >= sizeof local.address_.sun_path)
        return refused("the path {} is too long for a socket: choose a directory with a shorter name", name);
    local.address_.sun_family = AF_UNIX;
    std::memcpy(local.address_.sun_path, name.c_str(), name.size() + 1);
    return local;
}

int LocalAddress::bind(int socket) const {
    // NOLINTNEXTLINE(*-reinterpret-cast)
    return ::bind(socket, reinterpret_cast<const sockaddr*>(&address_), sizeof address_);
}

int LocalAddress::connect(int socket) const {
    // NOLINTNEXTLINE(*-reinterpret-cast)
    return ::connect(socket, reinterpret_cast<const sockaddr*>(&address_), sizeof address_);
}

// The mode is not set by umask(), which is all threads': who makes a directory meanwhile could not enter it. The file
// takes the socket's mode, less what the umask takes away; if that is anything, it is set again, for which libc needs
// /proc. Whoever may write to the directory may have put a link in the file's place by then: no call here follows one.
Result<UniqueFd> listen_at(const std::filesystem::path& path, const LocalListener& listener) {
    const LocalAddress address = LEAT_TRY(LocalAddress::of(path));
    UniqueFd socket = local_socket(listener.type);
    if (socket.is_open()) (void)::fchmod(socket.get(), listener.mode);
    if (!socket.is_open() || address.bind(socket.get()) != 0)
        return io_error(fmt::format("cannot make {}", path.native()));
    if (listener.group && ::lchown(path.c_str(), static_cast<uid_t>(-1), *listener.group) != 0)
        return io_error(fmt::format("cannot give {} to group {}", path.native(), *listener.group));
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 ||
        ((status.st_mode & 07777U) != listener.mode &&
         ::fchmodat(AT_FDCWD, path.c_str(), listener.mode, AT_SYMLINK_NOFOLLOW) != 0))
        return io_error(fmt::format("cannot set the mode of {}", path.native()));
    if (::listen(socket.get(), listener.backlog) != 0)
        return io_error(fmt::format("cannot listen on {}", path.native()));
    return socket;
}

Result<UniqueFd> connect_at(const std::filesystem::path& path, int type) {
    const LocalAddress address = LEAT_TRY(LocalAddress::of(path));
    UniqueFd socket = local_socket(type);
    if (!socket.is_open() || address.connect(socket.get()) != 0)
        return io_error(fmt::format("cannot connect to {}", path.native()));
    return socket;
}

}  // namespace leat
