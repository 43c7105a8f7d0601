#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

namespace leat::cli {

// A name of a file that is not there: this one, or "NAME-2", "NAME-3".
inline std::string unused_name(const std::string& base) {
    std::string name = base;
    std::error_code error;
    for (int i = 2; std::filesystem::exists(name, error); ++i) name = fmt::format("{}-{}", base, i);
    return name;
}

// A new directory of such a name, which nobody else takes meanwhile. It goes away if it is empty at the end.
class UnusedDirectory {
  public:
    // Where none can be made, nothing is: whoever uses the name hears why.
    explicit UnusedDirectory(const std::string& base) : path_(unused_name(base)) {
        std::error_code error;
        while (!(is_ours_ = std::filesystem::create_directory(path_, error)) && !error) path_ = unused_name(base);
    }
    UnusedDirectory(const UnusedDirectory&) = delete;
    UnusedDirectory& operator=(const UnusedDirectory&) = delete;
    ~UnusedDirectory() {
        std::error_code ignored;
        if (is_ours_) std::filesystem::remove(path_, ignored);
    }

    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
    bool is_ours_ = false;
};

}  // namespace leat::cli
