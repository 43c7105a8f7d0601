// A new directory for one test. It is deleted afterwards with everything in it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.hpp"

namespace leat::test {

class ScratchDirectory {
  public:
    ScratchDirectory() {
        std::string name = std::filesystem::temp_directory_path() / "leat-test-XXXXXX";
        LEAT_CHECK(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~ScratchDirectory() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }
    ScratchDirectory(const ScratchDirectory&) = delete;
    ScratchDirectory& operator=(const ScratchDirectory&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace leat::test
