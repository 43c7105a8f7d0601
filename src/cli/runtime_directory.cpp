#include "cli/runtime_directory.hpp"

#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "wire/app/app_protocol.hpp"

namespace leat::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "leat-XXXXXX";

std::optional<fs::path> directory_of_user() {
    constexpr std::size_t kMaxSize = sizeof(sockaddr_un::sun_path) - sizeof kName - sizeof wire::kAppSocketName - 1;
    const char* const path = ::secure_getenv("XDG_RUNTIME_DIR");
    // A relative one counts as none, as XDG says: programs go elsewhere.
    if (path == nullptr || path[0] != '/' || std::strlen(path) > kMaxSize) return std::nullopt;
    return path;
}

}  // namespace

// That of a user may be another one's, whom we were before su(1).
Result<RuntimeDirectory> RuntimeDirectory::create() {
    if (const auto of_user = directory_of_user()) {
        std::string path = *of_user / kName;
        if (::mkdtemp(path.data()) != nullptr) return RuntimeDirectory(path);
    }
    std::string path = fs::path("/tmp") / kName;
    if (::mkdtemp(path.data()) == nullptr)
        return io_error(fmt::format("cannot create {}: name another directory with XDG_RUNTIME_DIR", path));
    return RuntimeDirectory(path);
}

RuntimeDirectory::~RuntimeDirectory() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
}

}  // namespace leat::cli
