#include "sessiond/daemon_place.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "sessiond/handover.hpp"
#include "wire/app/app_directory_parent.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {
namespace {

namespace fs = std::filesystem;

fs::path app_directory_of(const fs::path& parent, uid_t uid) {
    return parent / (wire::kAppDirectoryPrefix + std::to_string(uid));
}

// As a parent of the directories of all users: anybody may make one, and nobody may remove another's. LEAT_RUNTIME_DIR
// may be another user's, who could put a link to a directory of ours there.
Result<void> make_shared_directory(const fs::path& path) {
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
        return io_error(fmt::format("cannot make {}", path.string()));
    const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (!directory.is_open() || ::fstat(directory.get(), &status) != 0)
        return io_error(fmt::format("cannot use {}, for the programs of all users", path.string()));
    if (status.st_uid == ::geteuid()) (void)::fchmod(directory.get(), 01777);
    return {};
}

Result<void> check_own_directory(const fs::path& directory) {
    struct stat status {};
    if (::lstat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
        return refused("{} is no directory", directory.string());
    if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return refused("{} is not ours alone to write: remove it, or choose another place with LEAT_RUNTIME_DIR",
                       directory.string());
    return {};
}

Result<void> make_own_directory(const Places& places) {
    const mode_t mode = places.only ? 0700 : 0755;
    if (::mkdir(places.directory.c_str(), mode) != 0 && errno != EEXIST)
        return io_error(fmt::format("cannot make {}", places.directory.string()));
    return check_own_directory(places.directory);
}

// Held as long as we live: another daemon that starts meanwhile finds it locked. Whoever removes the directory may do
// so just then: who has locked a file that nobody finds has nothing.
Result<UniqueFd> lock_in(const fs::path& directory) {
    constexpr int kTries = 10;
    const fs::path path = directory / wire::kLockName;
    for (int i = 0; i < kTries; ++i) {
        UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!file.is_open()) return io_error(fmt::format("cannot open {}", path.string()));
        if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
            return refused("another session daemon runs already in {}", directory.string());
        if (is_locked_file(file, path)) return file;
    }
    errno = ENOENT;
    return io_error(fmt::format("{} is removed again and again", path.string()));
}

}  // namespace

Result<Places> Places::find() {
    const auto base = LEAT_TRY(wire::runtime_directory());
    const bool is_elsewhere = base && !base->empty();
    const fs::path parent = wire::app_directory_parent();
    if (::geteuid() == 0)
        return Places{.lane = wire::Lane::kSystem,
                      .directory = is_elsewhere ? *base : fs::path(wire::kSystemDirectory),
                      .app_parent = parent};
    return Places{.lane = wire::Lane::kUser,
                  .directory = app_directory_of(parent, ::geteuid()),
                  .app_parent = parent,
                  .only = ::geteuid()};
}

DaemonPlace::DaemonPlace(Places places, UniqueFd lock)
    : places_(std::move(places)), lock_(std::move(lock)), app_parent_(places_.app_parent) {}

Result<DaemonPlace> DaemonPlace::take(Places places, UniqueFd lock) {
    if (!places.only) LEAT_TRY(make_own_directory(places));
    if (places.app_parent != fs::path(wire::kAppDirectoryParent)) LEAT_TRY(make_shared_directory(places.app_parent));
    if (places.only) LEAT_TRY(make_own_directory(places));
    if (!lock.is_open()) lock = LEAT_TRY(lock_in(places.directory));
    return DaemonPlace(std::move(places), std::move(lock));
}

bool DaemonPlace::is_ours() const { return is_locked_file(lock_, path_of(wire::kLockName)); }

Result<DaemonPlace::Owner> DaemonPlace::owner() const {
    if (is_ours()) return Owner::kWe;
    if (!check_own_directory(places_.directory)) return Owner::kNobody;
    const fs::path path = path_of(wire::kLockName);
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open() && errno == ENOENT) return Owner::kNobody;
    if (file.is_open() && ::flock(file.get(), LOCK_SH | LOCK_NB) == 0) return Owner::kNobody;
    if (file.is_open() && errno == EWOULDBLOCK) return Owner::kAnother;
    return io_error(fmt::format("cannot look who has {}", path.string()));
}

Result<void> DaemonPlace::take_again() {
    const Owner before = LEAT_TRY(owner());
    if (before == Owner::kAnother)
        return refused("another session daemon runs already in {}", places_.directory.string());
    // Programs are looked for in the one that we have open.
    if (!app_parent_.is_there())
        return fail(ErrorKind::kIo, "{} is not the directory that it was: restart the daemon",
                    places_.app_parent.string());
    // Somebody else's may be in the way.
    if (auto made = make_own_directory(places_); !made) return fail(ErrorKind::kIo, "{}", made.error().message);
    if (before != Owner::kWe) lock_ = LEAT_TRY(lock_in(places_.directory));
    return {};
}

}  // namespace leat::sessiond
