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

// Files that are written over have old packets behind the new ones, until they are cut. If this process is killed in
// between, somebody else has to cut them: a child process that does nothing but wait for that, with a descriptor of
// each such file, and their sizes in memory that both share.
class FileGuard {
  public:
    static constexpr std::uint32_t kMaxFiles = 512;

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
    // Of size 0 at first. Nothing if it cannot be guarded: then it must not be written over. Any thread.
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
