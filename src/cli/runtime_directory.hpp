#pragma once

#include <filesystem>
#include <memory>

#include "base/result.hpp"

namespace leat::cli {

// A fresh directory that only this user can enter, for the sockets of one recording. The destructor removes it.
class RuntimeDirectory {
  public:
    static Result<RuntimeDirectory> create();
    RuntimeDirectory(RuntimeDirectory&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
    RuntimeDirectory& operator=(RuntimeDirectory&&) = delete;
    RuntimeDirectory(const RuntimeDirectory&) = delete;
    RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;
    ~RuntimeDirectory();

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    explicit RuntimeDirectory(std::filesystem::path path) : path_(std::move(path)) {}

    std::filesystem::path path_;
};

}  // namespace leat::cli
