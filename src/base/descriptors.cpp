#include "base/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "base/log.hpp"

namespace leat {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kToldOncePer = 60s;
constexpr std::uint64_t kUsualLimit = 1024;
constexpr std::uint64_t kReserve = 8;  // one of so many

bool is_to_be_told() {
    static std::mutex lock;
    static std::optional<Clock::time_point> told;
    const std::lock_guard guard(lock);
    const auto now = Clock::now();
    if (told && now - *told < kToldOncePer) return false;
    told = now;
    return true;
}

}  // namespace

std::uint64_t descriptor_limit() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : kUsualLimit;
}

std::uint64_t raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)::setrlimit(RLIMIT_NOFILE, &limit);
    }
    return descriptor_limit();
}

std::uint64_t open_descriptors() {
    std::error_code error;
    std::uint64_t count = 0;
    for (fs::directory_iterator it("/proc/self/fd", error); !error && it != fs::directory_iterator();
         it.increment(error))
        ++count;
    return count == 0 ? 0 : count - 1;  // that of the directory itself
}

// The kernel gives the lowest number that is free.
bool is_among_the_last(const UniqueFd& opened) {
    if (!opened.is_open()) return errno == EMFILE || errno == ENFILE;
    const std::uint64_t limit = descriptor_limit();
    return static_cast<std::uint64_t>(opened.get()) >= limit - limit / kReserve;
}

// All at once: the first of them may be a gap between others.
bool are_descriptors_scarce(std::size_t wanted) {
    std::vector<UniqueFd> opened;
    while (opened.size() < wanted)
        if (is_among_the_last(opened.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC)))) return true;
    return false;
}

void log_want_of_descriptors(std::string_view what) {
    if (!is_to_be_told()) return;
    log_error("too many open files: {}; raise the limit of {} (RLIMIT_NOFILE: ulimit -n, LimitNOFILE of systemd)", what,
              descriptor_limit());
}

}  // namespace leat
