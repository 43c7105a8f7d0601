#pragma once

#include <asio/awaitable.hpp>
#include <asio/thread_pool.hpp>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/unique_fd.hpp"
#include "relay/store/confined_directory.hpp"

namespace leat::relay {

// What is in memory and is to be on disk: a file's bytes; or, where names have come or gone too, and files have been
// closed, all of the file system that holds `file`.
struct Unsynced {
    enum class Extent : std::uint8_t { kFile, kFileSystem };

    UniqueFd file;
    Extent extent = Extent::kFile;
};

// Brings files from the system's memory to the disk, on threads of its own: that may take seconds, and nobody else is
// to wait for it. What is stored survives the end of this process without it; with it, also that of the machine.
// Any thread.
class DiskSync {
  public:
    // Whoever asks what is stored hears of it only when it is on disk.
    explicit DiskSync(bool is_strict) : is_strict_(is_strict) {}
    // Waits for all that it was given.
    ~DiskSync() {
        asked_.join();
        ended_.join();
    }
    DiskSync(const DiskSync&) = delete;
    DiskSync& operator=(const DiskSync&) = delete;

    [[nodiscard]] bool is_strict() const { return is_strict_; }

    // Some time soon: all that is in a directory that has ended.
    void later(const ConfinedDirectory& directory);
    // When it returns, it is all on disk; false: some cannot be brought there.
    asio::awaitable<bool> now(std::vector<Unsynced> unsynced);

    // Where more directories have ended than the disk keeps up with, those beyond are brought there with all else that
    // is in their file system: each that waits costs a descriptor.
    static constexpr std::size_t kMaxWaiting = 64;

  private:
    bool may_wait(bool has_descriptor);
    bool takes_others();

    bool is_strict_;
    std::mutex mutex_;
    std::size_t waiting_ = 0;     // directories, with the one that is being synced
    bool are_left_out_ = false;   // some
    asio::thread_pool asked_{1};  // somebody waits for it
    asio::thread_pool ended_{1};
};

}  // namespace leat::relay
