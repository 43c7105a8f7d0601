// Where the control files of a test program go: nowhere, unless a test says so.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/scratch_directory.hpp"
#include "tracer/daemon_directory.hpp"

namespace leat::test {

// As when the program begins: the tracer takes no notice of what becomes of the variable later.
inline void set_runtime_directory(const char* value) {
    ::setenv("LEAT_RUNTIME_DIR", value, 1);
    tracer::find_daemons();
}

inline const bool kNoRuntimeDirectory = (set_runtime_directory(""), true);

// A runtime directory of its own, as long as this lives.
class RuntimeDirectory {
  public:
    RuntimeDirectory() { set_runtime_directory(directory_.path().c_str()); }
    ~RuntimeDirectory() { set_runtime_directory(""); }
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
