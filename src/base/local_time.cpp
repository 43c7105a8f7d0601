#include "base/local_time.hpp"

#include <array>
#include <ctime>

namespace leat {

std::string local_time_text(std::uint64_t seconds, const char* format) {
    const auto time = static_cast<std::time_t>(seconds);
    std::tm local{};
    std::array<char, 64> text{};
    if (::localtime_r(&time, &local) == nullptr) return std::to_string(seconds);
    const std::size_t size = std::strftime(text.data(), text.size(), format, &local);
    return {text.data(), size};
}

std::string local_time_text(const char* format) {
    return local_time_text(static_cast<std::uint64_t>(std::time(nullptr)), format);
}

}  // namespace leat
