#include "tracer/daemon_directory.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tracer/app_directory.hpp"
#include "tracer/trust.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::tracer {
namespace {

using wire::Lane;

constexpr int64_t kDefaultTimeoutMs = 3000;
int64_t timeout_ms = kDefaultTimeoutMs;

// Of each lane's daemon; empty: there is none. The socket's path must fit into an address. Of the user's daemon, it is
// the parent of all users' directories: which user that is may change.
constexpr size_t kMaxDirectory = sizeof(sockaddr_un::sun_path) - sizeof wire::kAppSocketName;
char directories[wire::kLanes][kMaxDirectory];

static_assert(sizeof wire::kActiveName <= sizeof wire::kAppSocketName);

void set_directory(Lane lane, const char* path) {
    char(&directory)[kMaxDirectory] = directories[static_cast<uint32_t>(lane)];
    const size_t length = path == nullptr ? 0 : strlen(path);
    const bool fits = length < sizeof directory;
    if (fits && length != 0) memcpy(directory, path, length);
    directory[fits ? length : 0] = '\0';
}

// False: there is none.
bool directory_of(Lane lane, char (&path)[kMaxDirectory]) {
    const char* const directory = directories[static_cast<uint32_t>(lane)];
    if (directory[0] == '\0') return false;
    char whole[kMaxAppPath];
    if (lane == Lane::kUser && !app_directory_below(directory, whole)) return false;
    const char* const found = lane == Lane::kUser ? whole : directory;
    const size_t length = strlen(found);
    if (length >= kMaxDirectory) return false;
    memcpy(path, found, length + 1);
    return true;
}

// `otherwise`: the text is null, or no number.
int64_t number_in(const char* text, int64_t otherwise) {
    char* end = nullptr;
    const int64_t number = text == nullptr ? otherwise : strtol(text, &end, 10);
    return end != text && end != nullptr && *end == '\0' ? number : otherwise;
}

// DIRECTORY/NAME, which fits.
void join(const char* directory, const char* name, char* path) {
    const size_t length = strlen(directory);
    memcpy(path, directory, length);
    path[length] = '/';
    memcpy(path + length + 1, name, strlen(name) + 1);
}

using DaemonPath = char[sizeof(sockaddr_un::sun_path)];

// The file that a daemon holds while it has a session. False: there can be no such daemon.
bool active_path(Lane lane, DaemonPath& path) {
    char directory[kMaxDirectory];
    if (!directory_of(lane, directory)) return false;
    join(directory, wire::kActiveName, path);
    return true;
}

// Afterwards a program waits again, to see.
constexpr time_t kNoteSeconds = 60;
// Programs wait for the next daemon for so long, one after the other.
constexpr time_t kGoneSeconds = 10;

const char* note_name(Lane lane, Silence silence) {
    if (silence == Silence::kDeaf) return lane == Lane::kSystem ? wire::kDeafSystemName : wire::kDeafUserName;
    return lane == Lane::kSystem ? wire::kGoneSystemName : wire::kGoneUserName;
}

// Where programs of this user say that daemons are deaf; -1: nowhere.
int open_notes(Lane lane) {
    char directory[kMaxDirectory];
    if (lane == Lane::kRecorder || !directory_of(Lane::kUser, directory)) return -1;
    return open_own_directory(directory);
}

// The note has the time of the last answer: any other one, and nobody goes by it. So no clock is compared with another.
// Returns its age in s; -1: there is none, or none that counts any more.
time_t age_of_note(int notes, const char* name, const timespec& last) {
    struct stat noted {};
    timespec now{};
    const bool is_there = fstatat(notes, name, &noted, AT_SYMLINK_NOFOLLOW) == 0 && noted.st_uid == geteuid();
    if (!is_there || !is_equal(noted.st_mtim, last) || clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    const time_t age = now.tv_sec - noted.st_ctim.tv_sec;
    return age < kNoteSeconds ? age : -1;
}

}  // namespace

// secure_getenv() knows nothing in setuid programs: whoever starts one must not choose whom it speaks to.
void find_daemons() {
    const char* const timeout = secure_getenv("LEAT_REGISTER_TIMEOUT");
    timeout_ms = number_in(timeout, kDefaultTimeoutMs);
    if (timeout_ms > INT32_MAX) timeout_ms = INT32_MAX;  // what poll() takes: 24 days
    set_directory(Lane::kRecorder, secure_getenv(wire::kRecorderDirectoryVariable));

    find_app_parent();
    const char* const users = app_parent();
    const char* const runtime = secure_getenv(wire::kRuntimeDirectoryVariable);
    set_directory(Lane::kSystem, users == nullptr ? nullptr : runtime != nullptr ? runtime : wire::kSystemDirectory);
    set_directory(Lane::kUser, users);
}

bool has_recorder() { return directories[static_cast<uint32_t>(Lane::kRecorder)][0] != '\0'; }

bool is_equal(const timespec& left, const timespec& right) {
    return left.tv_sec == right.tv_sec && left.tv_nsec == right.tv_nsec;
}

bool trusted_address(Lane lane, sockaddr_un& address) {
    char directory[kMaxDirectory];
    struct stat status {};
    if (!directory_of(lane, directory) || lstat(directory, &status) != 0 || !S_ISDIR(status.st_mode) ||
        !is_trusted(status.st_uid) || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return false;
    address.sun_family = AF_UNIX;
    join(directory, wire::kAppSocketName, address.sun_path);
    return true;
}

bool is_active(Lane lane) {
    DaemonPath path;
    if (!active_path(lane, path)) return false;
    const auto fd =
        static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd < 0) return false;
    struct flock found {};
    found.l_type = F_RDLCK;  // what we would have to wait for
    found.l_whence = SEEK_SET;
    const bool is_known = fcntl(fd, F_OFD_GETLK, &found) == 0;
    // A sandbox may not know such locks.
    const bool is_held = is_known ? found.l_type == F_WRLCK : flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    syscall(SYS_close, fd);  // with the lock, if we have got it
    return is_held;
}

timespec last_answer(Lane lane) {
    DaemonPath path;
    struct stat status {};
    return active_path(lane, path) && lstat(path, &status) == 0 ? status.st_mtim : timespec{};
}

bool is_known(Silence silence, Lane lane, const timespec& last) {
    const int notes = open_notes(lane);
    if (notes < 0) return false;
    const time_t age = age_of_note(notes, note_name(lane, silence), last);
    syscall(SYS_close, notes);
    return age >= (silence == Silence::kDeaf ? 0 : kGoneSeconds);
}

// The first one counts. Its owner may set the times of a file whatever its mode is.
void note(Silence silence, Lane lane, const timespec& last) {
    const char* const name = note_name(lane, silence);
    const int notes = is_equal(last, last_answer(lane)) ? open_notes(lane) : -1;
    if (notes < 0) return;
    const timespec times[] = {last, last};
    if (age_of_note(notes, name, last) < 0 && utimensat(notes, name, times, AT_SYMLINK_NOFOLLOW) != 0 &&
        errno == ENOENT) {
        const auto fd = static_cast<int>(
            syscall(SYS_openat, notes, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (fd >= 0) {
            (void)futimens(fd, times);
            syscall(SYS_close, fd);
        }
    }
    syscall(SYS_close, notes);
}

int64_t register_timeout_ms() { return timeout_ms; }

}  // namespace leat::tracer
