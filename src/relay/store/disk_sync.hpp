#pragma once

#include <asio/awaitable.hpp>
#include <asio/thread_pool.hpp>
#include <vector>

#include "base/unique_fd.hpp"
#include "relay/store/confined_directory.hpp"

namespace leat::relay {

// Brings files from the system's memory to the disk, on a thread of its own: that may take seconds, and nobody else is
// to wait for it. What is stored survives the end of this process without it; with it, also that of the machine.
// Any thread.
class DiskSync {
  public:
    // Whoever asks what is stored hears of it only when it is on disk.
    explicit DiskSync(bool is_strict) : is_strict_(is_strict) {}
    // Waits for all that it was given.
    ~DiskSync() { thread_.join(); }
    DiskSync(const DiskSync&) = delete;
    DiskSync& operator=(const DiskSync&) = delete;

    [[nodiscard]] bool is_strict() const { return is_strict_; }

    // Some time soon: all that is in a directory that has ended.
    void later(const ConfinedDirectory& directory);
    // When it returns, they are on disk; false: some cannot be brought there.
    asio::awaitable<bool> now(std::vector<UniqueFd> files);

  private:
    bool is_strict_;
    asio::thread_pool thread_{1};
};

}  // namespace leat::relay
