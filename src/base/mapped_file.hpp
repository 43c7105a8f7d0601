#pragma once

#include <filesystem>

#include "base/byte_cursor.hpp"
#include "base/fault_guard.hpp"
#include "base/mapping.hpp"
#include "base/result.hpp"

namespace leat {

// A whole file in memory, read-only, for as long as the object lives.
// If somebody shortens the file meanwhile, its reader finds zeros there, and was_shortened() says so.
class MappedFile {
  public:
    static Result<MappedFile> open(const std::filesystem::path& path);

    // Maps the first `size` bytes of an open file, which need not stay open.
    static Result<MappedFile> of_file(int fd, std::size_t size);

    [[nodiscard]] UntrustedBytes bytes() const { return {mapping_.data(), mapping_.size()}; }
    // To be asked after the bytes were read.
    [[nodiscard]] bool was_shortened() const { return guard_.was_lost(); }
    // The same, for who does not see the file: null if that cannot become true. It lives as long as the file's object.
    [[nodiscard]] const std::atomic<bool>* shortened() const { return guard_.lost(); }

  private:
    MappedFile(Mapping mapping, FaultGuard guard) : mapping_(std::move(mapping)), guard_(std::move(guard)) {}

    Mapping mapping_;
    FaultGuard guard_;
};

}  // namespace leat
