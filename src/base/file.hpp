// Files as the rest of the program wants them: whole, mapped, or written to the last byte.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat {

// Opens for reading; refuses what is not a regular file.
Result<UniqueFd> open_for_reading(const std::filesystem::path& path);

// The whole file, at most `size_limit` bytes of it: larger is an error.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t size_limit);

// Writes all bytes, whatever the number of calls that takes.
Result<void> write_all(int fd, std::span<const std::byte> bytes);

}  // namespace leat
