// Where the control files of a test program go: nowhere, unless a test says so.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/scratch_directory.hpp"

namespace leat::test {

inline const int kNoRuntimeDirectory = ::setenv("LEAT_RUNTIME_DIR", "", 1);

// A runtime directory of its own, as long as this lives.
class RuntimeDirectory {
  public:
    RuntimeDirectory() { ::setenv("LEAT_RUNTIME_DIR", directory_.path().c_str(), 1); }
    ~RuntimeDirectory() { ::setenv("LEAT_RUNTIME_DIR", "", 1); }
    RuntimeDirectory(const RuntimeDirectory&) = delete;
    RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return directory_.path(); }
    // Of our user.
    [[nodiscard]] std::filesystem::path apps() const {
        return path() / "apps" / ("leat-" + std::to_string(::geteuid()));
    }
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> names;
        if (!std::filesystem::exists(apps())) return names;
        for (const auto& entry : std::filesystem::directory_iterator(apps())) names.push_back(entry.path().filename());
        return names;
    }

  private:
    ScratchDirectory directory_;
};

}  // namespace leat::test
