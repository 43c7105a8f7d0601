#include "wire/app/app_directory_parent.hpp"

#include <cstdlib>

#include "wire/app/runtime_layout.hpp"

namespace leat::wire {

std::filesystem::path app_directory_parent() {
    const char* const base = ::secure_getenv(kRuntimeDirectoryVariable);
    const bool is_elsewhere = base != nullptr && *base != '\0';
    return is_elsewhere ? std::filesystem::absolute(base) / kAppDirectoryParentBelow
                        : std::filesystem::path(kAppDirectoryParent);
}

}  // namespace leat::wire
