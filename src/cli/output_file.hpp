// Where a command writes: a file that the user names.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::cli {

// What a name leads to, through all links.
struct Target {
    std::filesystem::path path{};     // whether that is there or not
    std::optional<int> descriptor{};  // of ours, as /dev/stdout or /dev/fd/3 name it
};
Target target_of(std::filesystem::path path);

// A file that is there when it is whole. What is no regular file, such as a FIFO, is written to as it is.
class OutputFile {
  public:
    static Result<OutputFile> open(const std::string& path);
    static OutputFile standard_output();
    OutputFile(OutputFile&& other) noexcept
        : path_(std::move(other.path_)),
          part_(std::exchange(other.part_, {})),
          fd_(std::move(other.fd_)),
          is_standard_output_(other.is_standard_output_) {}
    OutputFile& operator=(OutputFile&& other) = delete;
    ~OutputFile();

    [[nodiscard]] int fd() const { return is_standard_output_ ? STDOUT_FILENO : fd_.get(); }
    // It has another name until finish().
    [[nodiscard]] bool is_part() const { return !part_.empty(); }
    Result<void> finish();

  private:
    OutputFile() = default;

    std::string path_{};
    std::string part_{};  // what it is called until it is whole; empty: it has its name, or none
    UniqueFd fd_{};
    bool is_standard_output_ = false;
};

// As `> FILE` does in a shell: what is written can be read at once. What the file had is lost.
Result<void> redirect_standard_output(const std::string& path);

}  // namespace leat::cli
