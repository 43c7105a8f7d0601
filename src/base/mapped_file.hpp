#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/byte_cursor.hpp"
#include "base/fault_guard.hpp"
#include "base/mapping.hpp"
#include "base/result.hpp"

namespace leat {

// A whole file in memory, for as long as the object lives. Nobody but this class writes there.
// If somebody shortens the file meanwhile, its reader finds zeros there, and was_shortened() says so.
//
//     the file     | page | page | page | pag|
//     the memory   | page | page | page | copy+W|     or, where a file fills its last page,     | page | copy | W |
//
// The last page is a copy of ours: of a file that is cut off inside that page, nothing is missing here. If the cut is
// in front of it, also inside a page, then the system takes the copy away, and the witness W with it: eight bytes that
// the file never had. Who looks for them has a fault, or finds what is in the file since it grew again.
//
// XFS writes the zeros some microseconds before it takes the copy away. What is written over nobody notices.
//
// Small files are copied as a whole (copy_memory.hpp), so nothing of them is missing later.
class MappedFile {
  public:
    // Takes the first `size` bytes of an open file, which need not stay open. What is in the file is never written to.
    static Result<MappedFile> of_file(int fd, std::size_t size);

    [[nodiscard]] UntrustedBytes bytes() const { return {data_, size_}; }
    // To be asked after the bytes were read, and before they are used: it costs two loads.
    [[nodiscard]] bool was_shortened() const {
        if (witness_ == nullptr) return false;
        std::atomic_thread_fence(std::memory_order_acquire);
        const bool is_there = *witness_ == kWitness;
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return !is_there || guard_.was_lost();
    }

  private:
    static constexpr std::uint64_t kWitness = 0x9e37'79b9'7f4a'7c15;

    MappedFile() = default;

    static Result<MappedFile> copy_of(int fd, std::size_t size, std::shared_ptr<std::byte> memory);
    // `has_room`: its last page, for the witness.
    Result<void> copy_last_page(int fd, std::size_t pages, bool has_room);

    Mapping mapping_;
    FaultGuard guard_;
    std::shared_ptr<const std::byte> copy_;
    const std::byte* data_ = nullptr;  // of the mapping, or of the copy
    std::size_t size_ = 0;
    const volatile std::uint64_t* witness_ = nullptr;
};

}  // namespace leat
