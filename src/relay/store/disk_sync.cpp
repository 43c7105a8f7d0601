#include "relay/store/disk_sync.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "base/descriptors.hpp"
#include "base/log.hpp"

namespace leat::relay {
namespace {

// Of more files than this, all of the file system is synced at once.
constexpr std::size_t kMaxFiles = 256;

using Extent = Unsynced::Extent;

dev_t device_of(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? status.st_dev : 0;
}

// Some cannot be synced (on a tmpfs, say): that is no error.
bool is_synced(int result) {
    if (result == 0 || errno == EINVAL || errno == EROFS) return true;
    log_warning("cannot bring the trace to disk: {}", std::strerror(errno));
    return false;
}

bool sync_file(int fd) { return is_synced(::fsync(fd)); }

bool sync_file_system(int fd) { return is_synced(::syncfs(fd)); }

// What lies in a file system that has been synced is done with.
bool sync_all(std::vector<Unsynced>& unsynced) {
    bool are_all = true;
    std::set<dev_t> done;
    std::ranges::stable_partition(unsynced, [](const Unsynced& one) { return one.extent == Extent::kFileSystem; });
    for (const Unsynced& one : unsynced) {
        const dev_t device = device_of(one.file.get());
        if (done.contains(device)) continue;
        if (one.extent == Extent::kFileSystem) done.insert(device);
        const auto sync = one.extent == Extent::kFile ? sync_file : sync_file_system;
        are_all = sync(one.file.get()) && are_all;
    }
    return are_all;
}

// False: there are more than `left` files, or more than can be looked at now.
bool sync_all_in(const ConfinedDirectory& directory, std::size_t& left) {
    const auto names = directory.entries();
    if (!names) return false;
    for (const std::string& name : *names) {
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
    if (!again && !is_disk_full(again)) return log_warning("cannot bring the trace to disk: {}", again.error().message);
    if (!again) log_want_of_descriptors("what has ended is brought to disk later");
    if (!may_wait(again.has_value())) return;
    asio::post(ended_, [this, directory = *std::move(again)] {
        std::size_t left = kMaxFiles;
        if (takes_others() || !sync_all_in(directory, left)) sync_file_system(directory.fd());
        const std::lock_guard lock(mutex_);
        --waiting_;
    });
}

// If not, one of those that wait, or that come later, brings it there.
bool DiskSync::may_wait(bool has_descriptor) {
    const std::lock_guard lock(mutex_);
    if (!has_descriptor || waiting_ >= kMaxWaiting) {
        are_left_out_ = true;
        return false;
    }
    ++waiting_;
    return true;
}

bool DiskSync::takes_others() {
    const std::lock_guard lock(mutex_);
    return std::exchange(are_left_out_, false);
}

// On the thread for syncing, because fsync() may take seconds; the caller's coroutine goes on where it was.
asio::awaitable<bool> DiskSync::now(std::vector<Unsynced> unsynced) {
    const auto sync = [&unsynced]() -> asio::awaitable<bool> { co_return sync_all(unsynced); };
    co_return co_await asio::co_spawn(asked_, sync, asio::use_awaitable);
}

}  // namespace leat::relay
