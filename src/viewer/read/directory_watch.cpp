#include "viewer/read/directory_watch.hpp"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace leat::viewer {
namespace {

constexpr std::uint32_t kCreated = IN_CREATE | IN_MOVED_TO;
// How often a watch without notifications wakes up.
constexpr int kBlindPeriodMs = 20;

}  // namespace

DirectoryWatch::DirectoryWatch() : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)), is_blind_(!fd_.is_open()) {}

void DirectoryWatch::add_directory(const std::filesystem::path& path) { add(path, kCreated | IN_ONLYDIR); }

void DirectoryWatch::add_file(const std::filesystem::path& path) { add(path, IN_MODIFY | IN_CLOSE_WRITE); }

void DirectoryWatch::add(const std::filesystem::path& path, std::uint32_t events) {
    if (::inotify_add_watch(fd_.get(), path.c_str(), events) < 0) is_blind_ = true;
}

bool DirectoryWatch::wait(int stop_fd) {
    std::array<pollfd, 2> wanted{pollfd{fd_.get(), POLLIN, 0}, pollfd{stop_fd, POLLIN, 0}};
    const int count = ::poll(wanted.data(), wanted.size(), is_blind_ ? kBlindPeriodMs : int{kPeriod.count()});
    return take_events() || count == 0;
}

bool DirectoryWatch::take_events() {
    bool is_created = false;
    alignas(inotify_event) std::array<std::byte, 4096> buffer{};
    for (;;) {
        const ssize_t size = ::read(fd_.get(), buffer.data(), buffer.size());
        if (size <= 0) return is_created;
        for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
            inotify_event event{};
            std::memcpy(&event, buffer.data() + at, sizeof event);
            is_created |= (event.mask & (kCreated | IN_Q_OVERFLOW)) != 0;
            at += sizeof event + event.len;
        }
    }
}

}  // namespace leat::viewer
