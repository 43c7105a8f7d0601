#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/memory_place.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat {

// Text in shared memory that grows, and now and then is replaced as a whole. It outlives the process that writes it for
// as long as somebody else has the descriptor, and never ends in the middle of what was appended: wherever the writer
// is killed, readers find all of it, or nothing.
//
//     0        8        16        16 + begin        16 + begin + size
//     | begin  | size   | unused  | the text        | unused: perhaps a write that did not get to its end
//
// One writer, one thread.
class Journal {
  public:
    // An empty one.
    static Result<Journal> create(const std::string& name, const MemoryPlace& place = {});
    // Bytes. Larger ones are not read, and so not written.
    static constexpr std::uint64_t kMaxSize = 512U << 20U;

    // Goes on with one that create() made, in this process or in another.
    static Result<Journal> adopt(UniqueFd fd);

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] bool empty() const { return extent_.size == 0; }
    [[nodiscard]] std::uint64_t size() const { return extent_.size; }

    // All or nothing.
    Result<void> append(std::string_view text);
    // Readers find the text of before, or this one.
    Result<void> replace(std::string_view text);
    [[nodiscard]] Result<std::string> read() const;

  private:
    // Where the text lies, as it is in memory.
    struct Extent {
        std::uint64_t begin = 0;
        std::uint64_t size = 0;
    };

    Journal(UniqueFd fd, std::string name, Extent extent)
        : fd_(std::move(fd)), name_(std::move(name)), extent_(extent) {}
    Result<void> write_at(std::span<const std::byte> bytes, std::uint64_t offset);
    Result<void> set_extent(Extent extent);

    UniqueFd fd_;
    std::string name_;  // for messages
    Extent extent_;
};

}  // namespace leat
