#pragma once

#include <string>

#include "base/result.hpp"

namespace leat::cli {

// A file with our process id in it. It exists as long as the object.
class PidFile {
  public:
    static Result<PidFile> create(const std::string& path);
    PidFile(PidFile&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
    PidFile& operator=(PidFile&& other) noexcept {
        std::swap(path_, other.path_);
        return *this;
    }
    PidFile(const PidFile&) = delete;
    PidFile& operator=(const PidFile&) = delete;
    // Removes the file, unless another instance has written its own id into it.
    ~PidFile();

  private:
    explicit PidFile(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

}  // namespace leat::cli
