#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <optional>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat {

// A place in the file system where a socket listens: unix(7).
class LocalAddress {
  public:
    // Refused: the path is too long for one, of 108 bytes or more.
    static Result<LocalAddress> of(const std::filesystem::path& path);

    // As bind(2) and connect(2) do it, with errno.
    [[nodiscard]] int bind(int socket) const;
    [[nodiscard]] int connect(int socket) const;

  private:
    sockaddr_un address_{};
};

struct LocalListener {
    int type = SOCK_STREAM;        // with SOCK_NONBLOCK, if it is not to block
    int backlog = 128;             // how many may wait
    mode_t mode = 0600;            // of the file, whatever the umask is
    std::optional<gid_t> group{};  // of the file; none: ours
};

// Makes the file, which must not be there. Nobody can connect before file and socket are as they should be.
Result<UniqueFd> listen_at(const std::filesystem::path& path, const LocalListener& listener);

// Waits until whoever listens there has room.
Result<UniqueFd> connect_at(const std::filesystem::path& path, int type);

}  // namespace leat
