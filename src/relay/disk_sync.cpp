#include "relay/disk_sync.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <asio/co_spawn.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "relay/log.hpp"

namespace leat::relay {
namespace {

// Of a slow disk: more descriptors than this are not kept for it.
constexpr std::size_t kMaxWaiting = 512;

// Not all can be synced (tmpfs, pipes): that is no error.
void sync_all(const std::vector<UniqueFd>& files) {
    for (const UniqueFd& file : files)
        if (file.is_open() && ::fsync(file.get()) != 0 && errno != EINVAL && errno != EROFS)
            log("cannot bring the trace to disk: {}", std::strerror(errno));
}

}  // namespace

void DiskSync::later(std::vector<UniqueFd> files) {
    const std::size_t count = files.size();
    if (waiting_.fetch_add(count) > kMaxWaiting) {
        waiting_.fetch_sub(count);
        // They are too many for a thread of its own: whoever makes them waits.
        sync_all(files);
        return;
    }
    asio::post(thread_, [this, files = std::move(files), count] {
        sync_all(files);
        waiting_.fetch_sub(count);
    });
}

void DiskSync::later(const ConfinedDirectory& directory) {
    std::vector<UniqueFd> files;
    files.emplace_back(::fcntl(directory.fd(), F_DUPFD_CLOEXEC, 0));
    later(std::move(files));
}

asio::awaitable<void> DiskSync::now(std::vector<UniqueFd> files) {
    const auto sync = [&files]() -> asio::awaitable<void> {
        sync_all(files);
        co_return;
    };
    co_await asio::co_spawn(thread_, sync, asio::use_awaitable);
}

}  // namespace leat::relay
