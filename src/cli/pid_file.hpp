#pragma once

#include <string>

#include "base/result.hpp"

namespace leat::cli {

// A file with our process id in it, for as long as it lives.
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
    // Another instance may have written its own id into it: then it stays.
    ~PidFile();

  private:
    explicit PidFile(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

}  // namespace leat::cli
