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

// A file in which only a part of its last packet has arrived makes babeltrace2 refuse the whole trace, and so does an
// index that speaks of more than there is. If this process is killed, somebody else has to cut such files: a child
// process that does nothing but wait for that, with descriptors of each, and their sizes in memory that both share.
class FileGuard {
  public:
    static constexpr std::uint32_t kMaxFiles = 8192;

    // Forks: call it before there are threads. The child goes with this object, or behind this process.
    static Result<std::unique_ptr<FileGuard>> start();
    ~FileGuard();
    FileGuard(const FileGuard&) = delete;
    FileGuard& operator=(const FileGuard&) = delete;

    // Bytes that are safe to read.
    struct Sizes {
        std::uint64_t data;
        std::uint64_t index;
    };

    // A file of packets and its index under guard, as long as this object lives.
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
        // What lies behind would be cut off. Both at once: they fit together at any moment.
        void set_sizes(Sizes sizes);

      private:
        FileGuard* guard_;
        std::uint32_t slot_;
    };
    // `index`: -1: there is none. Nothing if they cannot be guarded. Any thread.
    std::optional<Guarded> guard(int data, int index = -1, Sizes sizes = Sizes());

  private:
    FileGuard(Mapping slots, UniqueFd socket, pid_t child);

    Mapping slots_;
    UniqueFd socket_;
    pid_t child_;
    std::mutex mutex_;
    std::vector<std::uint32_t> free_;
};

}  // namespace leat::relay
