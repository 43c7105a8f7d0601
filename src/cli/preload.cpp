#include "cli/preload.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>

namespace leat::cli {
namespace {

namespace fs = std::filesystem;

// glibc's loader replaces this by the name of its library directory, e.g. lib64. Others, such as musl's, take it
// literally: they find no such file and start the program without it. The file itself would stop them. The braces are
// for a shell script or Makefile that expands LD_PRELOAD once more: this becomes empty, and the path is still right.
constexpr char kGlibcOnly[] = "${LIB}";

// Where this program is installed, and where it was built.
std::array<fs::path, 2> library_directories() {
    std::error_code error;
    const fs::path programs = fs::read_symlink("/proc/self/exe", error).parent_path();
    return {(programs / LEAT_LIBRARY_DIRECTORY).lexically_normal(), programs.parent_path() / "lib"};
}

// preload/CMakeLists.txt puts links beside the libraries, for the names that glibc's directory has on known systems.
// Where it has another name, the loader of every program would complain about a missing file. So try with ours first.
bool has_glibc_only_path(const fs::path& directory) {
    void* probe = ::dlopen((directory / kGlibcOnly / "libleat-probe.so").c_str(), RTLD_LAZY);
    if (probe != nullptr) ::dlclose(probe);
    return probe != nullptr;
}

Result<fs::path> find_library(const std::string& name) {
    const std::string file = "libleat-preload-" + name + ".so";
    const std::array libraries = library_directories();
    for (const fs::path& library : libraries) {
        const fs::path directory = library / "leat";
        std::error_code error;
        if (!fs::exists(directory / file, error)) continue;
        if (directory.native().find_first_of(" :") != std::string::npos)
            return refused("LD_PRELOAD cannot name {}, for the space or colon in its path: install Leat elsewhere",
                           directory.string());
        return has_glibc_only_path(directory) ? directory / kGlibcOnly / file : directory / file;
    }
    return not_found("{} is not in {}/leat: build or install it", file, libraries.front().string());
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
