#include "relay/store/disk_sync.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace leat::relay {
namespace {

// Of more files than this, all of the file system is synced at once.
constexpr std::size_t kMaxFiles = 256;

// Some cannot be synced (on a tmpfs, say): that is no error.
bool sync_file(int fd) {
    if (::fsync(fd) == 0 || errno == EINVAL || errno == EROFS) return true;
    log_warning("cannot bring the trace to disk: {}", std::strerror(errno));
    return false;
}

// False: there are more than `left` files.
bool sync_all_in(const ConfinedDirectory& directory, std::size_t& left) {
    for (const std::string& name : directory.entries()) {
        if (left-- == 0) return false;
        if (const auto inner = directory.open(name)) {
            if (!sync_all_in(*inner, left)) return false;
        } else if (const auto file = directory.open_file(name)) {
            sync_file(file->get());
        }
    }
    sync_file(directory.fd());
    return true;
}

}  // namespace

// The directory is opened again: the caller may close its own, and a move does not matter to a descriptor.
void DiskSync::later(const ConfinedDirectory& directory) {
    auto again = directory.open("");
    if (!again) return log_warning("cannot bring the trace to disk: {}", again.error().message);
    asio::post(thread_, [directory = *std::move(again)] {
        std::size_t left = kMaxFiles;
        if (!sync_all_in(directory, left) && ::syncfs(directory.fd()) != 0)
            log_warning("cannot bring the trace to disk: {}", std::strerror(errno));
    });
}

// On the thread for syncing, because fsync() may take seconds; the caller's coroutine goes on where it was.
asio::awaitable<bool> DiskSync::now(std::vector<UniqueFd> files) {
    const auto sync = [&files]() -> asio::awaitable<bool> {
        bool are_all = true;
        for (const UniqueFd& file : files) are_all = sync_file(file.get()) && are_all;
        co_return are_all;
    };
    co_return co_await asio::co_spawn(thread_, sync, asio::use_awaitable);
}

}  // namespace leat::relay
