#include "wire/app/app_directory_parent.hpp"

#include <cstdlib>

#include "wire/app/runtime_layout.hpp"

namespace leat::wire {

Result<std::optional<std::filesystem::path>> runtime_directory() {
    const char* const value = ::secure_getenv(kRuntimeDirectoryVariable);
    if (value == nullptr) return std::nullopt;
    if (*value != '\0' && *value != '/')
        return refused("{} is \"{}\": give an absolute path, as programs go by no other", kRuntimeDirectoryVariable,
                       value);
    return value;
}

std::filesystem::path app_directory_parent() {
    const char* const base = ::secure_getenv(kRuntimeDirectoryVariable);
    const bool is_elsewhere = base != nullptr && *base != '\0';
    return is_elsewhere ? std::filesystem::absolute(base) / kAppDirectoryParentBelow
                        : std::filesystem::path(kAppDirectoryParent);
}

}  // namespace leat::wire
