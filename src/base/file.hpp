// Opening, reading and writing whole files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat {

// Opens a regular file for reading; refuses anything else.
Result<UniqueFd> open_for_reading(const std::filesystem::path& path);

// Returns the whole file. A file of more than `size_limit` bytes is an error.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t size_limit);

// The names in an open directory, "." and ".." among them, but not more than `most`.
Result<std::vector<std::string>> names_in(int directory, std::size_t most = SIZE_MAX);

// Whether somebody has removed the file or directory. Some file systems never tell, and some tell it of all.
bool is_removed(int fd);

// Fills `bytes` from this offset of the file on. Returns how many there are: fewer only at the end of the file.
Result<std::size_t> read_at(int fd, std::uint64_t offset, std::span<std::byte> bytes);
// Returns `size` bytes, or fewer at the end of the file.
Result<std::vector<std::byte>> read_at(int fd, std::uint64_t offset, std::size_t size);

// What a file of this process may have at most, in bytes (RLIMIT_FSIZE): one that would become larger ends the process
// by SIGXFSZ, unless that is ignored.
std::uint64_t largest_file();

// Writes all bytes, in as many calls as that takes. A pipe that writers are not to wait for may be full for now.
enum class WhenFull : std::uint8_t { kFail, kWait };
Result<void> write_all(int fd, std::span<const std::byte> bytes, WhenFull when_full = WhenFull::kFail);

}  // namespace leat
