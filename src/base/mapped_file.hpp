#pragma once

#include <cstddef>
#include <filesystem>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"

namespace leat {

// A whole file in memory, read-only, for as long as the object lives.
//
// A file that somebody shortens meanwhile kills the reader with SIGBUS: use it for files that only grow or are
// replaced, such as those of a trace.
class MappedFile {
  public:
    static Result<MappedFile> open(const std::filesystem::path& path);

    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    [[nodiscard]] UntrustedBytes bytes() const { return bytes_; }

  private:
    explicit MappedFile(UntrustedBytes bytes) : bytes_(bytes) {}

    UntrustedBytes bytes_;
};

}  // namespace leat
