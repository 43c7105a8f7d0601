#include "cli/preload.hpp"

#include <cstdlib>
#include <filesystem>

namespace leat::cli {
namespace {

namespace fs = std::filesystem;

Result<fs::path> find_library(const std::string& name) {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    const std::string file = "libleat-preload-" + name + ".so";
    const fs::path lib = program.parent_path().parent_path() / "lib";
    for (const fs::path& candidate : {lib / file, lib / "leat" / file}) {
        if (fs::exists(candidate, error)) return candidate;
    }
    return not_found("{} is not in {}: build or install it", file, lib.string());
}

}  // namespace

std::vector<std::string> preload_names() { return {"libc", "pthread", "dl"}; }

Result<std::string> preload_variable(const std::vector<std::string>& names) {
    std::string value;
    for (const std::string& name : names) value += LEAT_TRY(find_library(name)).string() + ":";
    const char* inherited = std::getenv("LD_PRELOAD");  // NOLINT(concurrency-mt-unsafe): one thread
    if (inherited != nullptr) value += inherited;
    if (value.ends_with(':')) value.pop_back();
    return value;
}

}  // namespace leat::cli
