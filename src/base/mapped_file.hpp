#pragma once

#include <filesystem>

#include "base/byte_cursor.hpp"
#include "base/mapping.hpp"
#include "base/result.hpp"

namespace leat {

// A whole file in memory, read-only, for as long as the object lives.
//
// If somebody shortens the file meanwhile, SIGBUS kills the reader. Use it for files that only grow or are replaced,
// such as those of a trace.
class MappedFile {
  public:
    static Result<MappedFile> open(const std::filesystem::path& path);

    // Maps the first `size` bytes of an open file, which need not stay open.
    static Result<MappedFile> of_file(int fd, std::size_t size);

    [[nodiscard]] UntrustedBytes bytes() const { return {mapping_.data(), mapping_.size()}; }

  private:
    explicit MappedFile(Mapping mapping) : mapping_(std::move(mapping)) {}

    Mapping mapping_;
};

}  // namespace leat
