#pragma once

#include <atomic>
#include <filesystem>

#include "base/byte_cursor.hpp"
#include "base/fault_guard.hpp"
#include "base/mapping.hpp"
#include "base/result.hpp"

namespace leat {

// A whole file in memory, read-only, for as long as the object lives.
// If somebody shortens the file meanwhile, its reader finds zeros there, and was_shortened() says so.
//
//     the file     | page | page | page | pag|
//     the memory   | page | page | page | copy |
//
// The last page is a copy of ours: of a file that is cut off inside that page, nothing is missing here. If the cut is
// in front of it, also inside a page, then the system takes the copy away, and who touches it has a fault.
class MappedFile {
  public:
    static Result<MappedFile> open(const std::filesystem::path& path);

    // Maps the first `size` bytes of an open file, which need not stay open. What is in the file is never written to.
    static Result<MappedFile> of_file(int fd, std::size_t size);

    [[nodiscard]] UntrustedBytes bytes() const { return {mapping_.data(), mapping_.size()}; }
    // To be asked after the bytes were read, and before they are used: it costs two loads.
    [[nodiscard]] bool was_shortened() const {
        if (mapping_.size() == 0) return false;
        std::atomic_thread_fence(std::memory_order_acquire);
        (void)*static_cast<const volatile std::byte*>(mapping_.data() + mapping_.size() - 1);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return guard_.was_lost();
    }

  private:
    MappedFile(Mapping mapping, FaultGuard guard) : mapping_(std::move(mapping)), guard_(std::move(guard)) {}

    Mapping mapping_;
    FaultGuard guard_;
};

}  // namespace leat
