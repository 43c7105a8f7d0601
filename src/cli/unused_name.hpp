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

}  // namespace leat::cli
