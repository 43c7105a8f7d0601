#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/mapping.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::relay {

// A file in which only a part of its last packet has arrived makes babeltrace2 refuse the whole trace. If this process
// is killed, somebody else has to cut such files: a child process that does nothing but wait for that, with a
// descriptor of each, and their sizes in memory that both share.
class FileGuard {
  public:
    static constexpr std::uint32_t kMaxFiles = 8192;

    // Forks: call it before there are threads. The child goes with this object, or behind this process.
    static Result<std::unique_ptr<FileGuard>> start();
    ~FileGuard();
    FileGuard(const FileGuard&) = delete;
    FileGuard& operator=(const FileGuard&) = delete;

    // A file under guard, as long as this object lives.
    class Guarded {
      public:
        Guarded(FileGuard& guard, std::uint32_t slot) : guard_(&guard), slot_(slot) {}
        Guarded(Guarded&& other) noexcept : guard_(std::exchange(other.guard_, nullptr)), slot_(other.slot_) {}
        Guarded& operator=(Guarded&& other) noexcept {
            std::swap(guard_, other.guard_);
            std::swap(slot_, other.slot_);
            return *this;
        }
        ~Guarded();
        // What lies behind would be cut off.
        void set_size(std::uint64_t size);

      private:
        FileGuard* guard_;
        std::uint32_t slot_;
    };
    // Of size 0 at first. Nothing if it cannot be guarded. Any thread.
    std::optional<Guarded> guard(int fd);

  private:
    FileGuard(Mapping sizes, UniqueFd socket, pid_t child);

    Mapping sizes_;
    UniqueFd socket_;
    pid_t child_;
    std::mutex mutex_;
    std::vector<std::uint32_t> free_;
};

}  // namespace leat::relay
