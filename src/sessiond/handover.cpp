#include "sessiond/handover.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <span>

#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {
namespace {

namespace fs = std::filesystem;

// Numbers with commas between them; -1: none.
bool read_descriptors(std::string_view text, std::span<UniqueFd* const> descriptors) {
    for (UniqueFd* const descriptor : descriptors) {
        int number = -1;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc()) return false;
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        if (!text.empty() && text.front() != ',') return false;
        if (!text.empty()) text.remove_prefix(1);
        if (number <= STDERR_FILENO) continue;
        if (::fcntl(number, F_SETFD, FD_CLOEXEC) != 0) return false;
        *descriptor = UniqueFd(number);
    }
    return text.empty();
}

bool listens_at(const UniqueFd& socket, const fs::path& path) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (!socket.is_open() || ::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
        listens == 0)
        return false;
    struct stat named {};
    return ::lstat(path.c_str(), &named) == 0 && S_ISSOCK(named.st_mode);
}

}  // namespace

bool is_locked_file(const UniqueFd& file, const fs::path& path) {
    struct stat opened {};
    struct stat named {};
    return file.is_open() && ::fstat(file.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino &&
           ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

std::string Handover::keep_over_exec() const {
    for (const UniqueFd* const descriptor : {&lock, &active, &programs, &clients})
        if (descriptor->is_open()) (void)::fcntl(descriptor->get(), F_SETFD, 0);
    return fmt::format("{},{},{},{}", lock.get(), active.get(), programs.get(), clients.get());
}

Handover Handover::find(std::string_view text, const fs::path& directory) {
    Handover found;
    const bool is_whole =
        read_descriptors(text, std::array{&found.lock, &found.active, &found.programs, &found.clients});
    if (is_whole && is_locked_file(found.lock, directory / wire::kLockName) &&
        (!found.active.is_open() || is_locked_file(found.active, directory / wire::kActiveName)) &&
        listens_at(found.programs, directory / wire::kAppSocketName) &&
        listens_at(found.clients, directory / wire::kControlSocketName))
        return found;
    return {};
}

}  // namespace leat::sessiond
