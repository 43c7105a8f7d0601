#include "cli/runtime_directory.hpp"

#include <cstdlib>
#include <string>

namespace leat::cli {
namespace {

namespace fs = std::filesystem;

fs::path parent_directory() {
    const char* of_user = ::secure_getenv("XDG_RUNTIME_DIR");
    std::error_code error;
    // A relative one counts as none, as XDG says: programs go elsewhere.
    const bool is_usable = of_user != nullptr && fs::path(of_user).is_absolute() && fs::is_directory(of_user, error);
    return is_usable ? fs::path(of_user) : fs::path("/tmp");
}

}  // namespace

Result<RuntimeDirectory> RuntimeDirectory::create() {
    std::string path = parent_directory() / "leat-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return io_error(fmt::format("cannot create {}", path));
    return RuntimeDirectory(path);
}

RuntimeDirectory::~RuntimeDirectory() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
}

}  // namespace leat::cli
