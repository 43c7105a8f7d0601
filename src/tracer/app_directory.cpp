#include "tracer/app_directory.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ring/clock.hpp"
#include "tracer/descriptors.hpp"
#include "tracer/trust.hpp"
#include "wire/app/control_format.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::tracer {
namespace {

constexpr size_t kNameSize = wire::kControlFileDigits + sizeof wire::kControlFile;  // with its NUL
static_assert(sizeof wire::kControlFile == sizeof wire::kNewControlFile);

// Builds a path, or finds that it is too long.
class PathWriter {
  public:
    explicit PathWriter(char (&path)[kMaxAppPath]) : path_(path) { path_[0] = '\0'; }

    PathWriter& add(const char* text, size_t length) {
        is_whole_ = is_whole_ && length < kMaxAppPath - length_;
        if (!is_whole_) return *this;
        memcpy(path_ + length_, text, length);
        length_ += length;
        path_[length_] = '\0';
        return *this;
    }
    PathWriter& add(const char* text) { return add(text, strlen(text)); }
    PathWriter& add_number(uint32_t number) {
        char digits[10];
        size_t first = sizeof digits;
        do digits[--first] = static_cast<char>('0' + number % 10);
        while ((number /= 10) != 0);
        return add(digits + first, sizeof digits - first);
    }
    [[nodiscard]] bool is_whole() const { return is_whole_; }

  private:
    char (&path_)[kMaxAppPath];
    size_t length_ = 0;
    bool is_whole_ = true;
};

void write_name(char* name, uint64_t number, const char* suffix) {
    for (unsigned i = wire::kControlFileDigits; i-- > 0; number >>= 4) name[i] = "0123456789abcdef"[number & 15];
    memcpy(name + wire::kControlFileDigits, suffix, sizeof wire::kControlFile);
}

// What find_app_parent() has found.
char parent_path[kMaxAppPath];
bool has_parent = false;

// `name` is that of a file.
bool is_new_name(const char* name) { return strcmp(name + wire::kControlFileDigits, wire::kNewControlFile) == 0; }

bool is_file_name(const char* name) {
    for (unsigned i = 0; i < wire::kControlFileDigits; ++i)
        if (!(name[i] >= '0' && name[i] <= '9') && !(name[i] >= 'a' && name[i] <= 'f')) return false;
    return is_new_name(name) || strcmp(name + wire::kControlFileDigits, wire::kControlFile) == 0;
}

// Names need not be secret, only different.
uint64_t random_number() {
    uint64_t number = 0;
    if (syscall(SYS_getrandom, &number, sizeof number, GRND_NONBLOCK) == static_cast<long>(sizeof number))
        return number;
    return ring::system_now() ^ static_cast<uint64_t>(getpid()) << 40;
}

// libc's functions of these names, and pread(), are cancellation points: a thread must not end in the middle of a
// fork().
int open_at(int directory, const char* path, int flags, mode_t mode = 0) {
    return beyond_standard(
        static_cast<int>(syscall(SYS_openat, directory, path, flags | O_NOFOLLOW | O_CLOEXEC, mode)));
}
void close_fd(int fd) { syscall(SYS_close, fd); }

int open_directory_at(const char* path) { return open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK); }

// Whatever the umask says. By descriptor, because somebody may have put another directory there by now.
int make_directory(const char* path, mode_t mode) {
    const bool is_new = mkdir(path, mode & 0777) == 0;
    const int fd = open_directory_at(path);
    struct stat status {};
    if (is_new && fd < 0) (void)rmdir(path);
    if (is_new && fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid()) (void)fchmod(fd, mode);
    return fd;
}

bool is_ours_alone(int directory) {
    struct stat status {};
    return fstat(directory, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// The kernel shows whoever has no number in our user namespace as this one: in that of `unshare --map-root-user`, the
// owner of the host's /dev/shm. A directory of root that we made there would be another user's for the host, and keep
// root's programs from being traced; and without a number of our own, others pass for us.
bool is_of_another_namespace(const char* parent) {
    constexpr uid_t kOverflowUser = 65534;
    struct stat status {};
    return strcmp(parent, wire::kAppDirectoryParent) == 0 && stat(parent, &status) == 0 &&
           status.st_uid == kOverflowUser;
}

// Events that found no rings. The next daemon takes note of them: docs/formats/runtime-directory.md, "Life of a control
// file".
bool has_counted(int fd) {
    wire::ControlFileHeader header;
    // Where an offset takes two registers, the second 0 is of that.
    if (syscall(SYS_pread64, fd, &header, sizeof header, 0L, 0L) != static_cast<long>(sizeof header)) return false;
    return header.not_attached[static_cast<uint32_t>(wire::Lane::kSystem)] != 0 ||
           header.not_attached[static_cast<uint32_t>(wire::Lane::kUser)] != 0;
}

// Such a file must not even be locked for a moment: its program would find it in use.
bool may_be_in_the_making(int fd) {
    struct stat status {};
    return fstat(fd, &status) == 0 && wire::may_be_in_the_making(status.st_mtim.tv_sec, time(nullptr));
}

// Nobody has it mapped, so its lock is free. Reading alone: closing it is then no news for a daemon that watches.
void remove_if_dead(int directory, const char* name) {
    const int fd = open_at(directory, name, O_RDONLY | O_NONBLOCK);
    if (fd < 0) return;
    if (!(is_new_name(name) && may_be_in_the_making(fd)) && flock(fd, LOCK_EX | LOCK_NB) == 0 && !has_counted(fd))
        (void)unlinkat(directory, name, 0);
    close_fd(fd);
}

// Programs that are killed leave their files. Where no daemon runs, those that start clear them away: each a few of
// both kinds, taken at random, so that every file has its turn.
constexpr uint32_t kDeadFilesAtStart = 8;
constexpr uint32_t kDeadFilesOfChild = 2;

// Some names of many that come one after the other, each as likely as any other.
class Sample {
  public:
    explicit Sample(uint32_t wanted) : wanted_(wanted) {}

    void add(const char* name) {
        const uint32_t place = seen_ < wanted_ ? seen_ : static_cast<uint32_t>(next() % (seen_ + 1));
        if (place < wanted_) memcpy(names_[place], name, kNameSize);
        ++seen_;
    }
    [[nodiscard]] uint32_t size() const { return seen_ < wanted_ ? seen_ : wanted_; }
    [[nodiscard]] const char* name(uint32_t index) const { return names_[index]; }

  private:
    uint64_t next() {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return state_ >> 33;
    }

    uint32_t wanted_;
    uint32_t seen_ = 0;
    uint64_t state_ = random_number();
    char names_[kDeadFilesAtStart][kNameSize];
};

// Little stack: a child of fork() comes here, whose thread may have little.
void remove_some_dead_files(int directory, uint32_t wanted) {
    constexpr int kMaxReads = 8;  // of 50 files each
    alignas(dirent64) char entries[2048];
    Sample finished(wanted);
    Sample unfinished(wanted);
    for (int i = 0; i < kMaxReads; ++i) {
        const long size = syscall(SYS_getdents64, directory, entries, sizeof entries);
        if (size <= 0) break;
        for (long at = 0; at < size;) {
            const auto& entry = *reinterpret_cast<const dirent64*>(entries + at);  // NOLINT(*-reinterpret-cast)
            at += entry.d_reclen;
            if (is_file_name(entry.d_name)) (is_new_name(entry.d_name) ? unfinished : finished).add(entry.d_name);
        }
    }
    for (uint32_t i = 0; i < finished.size(); ++i) remove_if_dead(directory, finished.name(i));
    for (uint32_t i = 0; i < unfinished.size(); ++i) remove_if_dead(directory, unfinished.name(i));
}

constexpr mode_t kFileMode = 0600;  // whatever the umask says

// A signal that waits ends it, also one whose handler wants calls restarted, and what was allocated is given back:
// where a timer is faster than all of it, only less at a time is ever done.
bool allocate_blocks(int fd, uint64_t size) {
    constexpr uint64_t kPiece = 64U << 10;
    constexpr int kTries = 100;
    for (uint64_t at = 0; at < size; at += kPiece) {
        const uint64_t piece = size - at < kPiece ? size - at : kPiece;
        int tries = 0;
        while (syscall(SYS_fallocate, fd, 0, static_cast<off_t>(at), static_cast<off_t>(piece)) != 0)
            if (errno != EINTR || ++tries == kTries) return false;
    }
    return true;
}

bool allocate(int fd, uint64_t allocated, uint64_t size) {
    return allocate_blocks(fd, allocated) && ftruncate(fd, static_cast<off_t>(size)) == 0;
}

// A daemon may hold the new file's lock just now, to see whether its program is dead. A program of an earlier version
// may have removed the file.
bool lock(int fd) {
    struct stat status {};
    return flock(fd, LOCK_SH | LOCK_NB) == 0 && fstat(fd, &status) == 0 && status.st_nlink == 1 &&
           ((status.st_mode & 0777) == kFileMode || fchmod(fd, kFileMode) == 0);
}

}  // namespace

int open_own_directory(const char* path) {
    const int fd = open_directory_at(path);
    if (fd < 0 || is_ours_alone(fd)) return fd;
    close_fd(fd);
    return -1;
}

bool may_have_files_of(uint64_t size) {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur);
}

// A sandbox may forbid it. Then memory comes with use, as it does nearly everywhere.
bool make_room(int fd, uint64_t allocated, uint64_t size) {
    const bool is_refused = !allocate_blocks(fd, allocated) && (errno == ENOSPC || errno == ENOMEM || errno == EINTR);
    return !is_refused && ftruncate(fd, static_cast<off_t>(size)) == 0;
}

void find_app_parent() {
    // Whoever starts a setuid program must not choose where it keeps its files: there, the variable counts as not set.
    const char* const directory = secure_getenv(wire::kRuntimeDirectoryVariable);
    has_parent = false;
    if (directory != nullptr && directory[0] != '/') return;
    PathWriter writer(parent_path);
    if (directory == nullptr)
        writer.add(wire::kAppDirectoryParent);
    else
        writer.add(directory).add("/").add(wire::kAppDirectoryParentBelow);
    has_parent = writer.is_whole();
}

const char* app_parent() { return has_parent ? parent_path : nullptr; }

bool app_directory_below(const char* parent, char (&path)[kMaxAppPath]) {
    return is_effective_user_trusted() && !is_of_another_namespace(parent) &&
           PathWriter(path).add(parent).add("/").add(wire::kAppDirectoryPrefix).add_number(geteuid()).is_whole();
}

uint64_t app_file_number(const char* path) {
    uint64_t number = 0;
    const char* const name = path + strlen(path) + 1 - kNameSize;
    for (unsigned i = 0; i < wire::kControlFileDigits; ++i)
        number = number << 4 | static_cast<uint64_t>(name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
    return number;
}

AppFile::~AppFile() {
    if (is_new_) (void)unlinkat(directory_, name(), 0);
    if (fd_ >= 0) close_fd(fd_);
    if (directory_ >= 0) close_fd(directory_);
}

// Makes it if it is not there, and its parent below LEAT_RUNTIME_DIR, which is for all users.
bool AppFile::open_directory() {
    directory_length_ = strlen(path_);
    if (directory_length_ + 1 + kNameSize > sizeof path_) return false;
    directory_ = open_directory_at(path_);
    if (directory_ < 0 && errno == ENOENT) {
        char* const end_of_parent = strrchr(path_, '/');
        *end_of_parent = '\0';
        if (access(path_, F_OK) != 0 && strcmp(path_, wire::kAppDirectoryParent) != 0) {
            const int parent = make_directory(path_, 01777);
            if (parent >= 0) close_fd(parent);
        }
        *end_of_parent = '/';
        directory_ = make_directory(path_, 0700);
    }
    return directory_ >= 0 && is_ours_alone(directory_);
}

bool AppFile::create_named(uint64_t number) {
    path_[directory_length_] = '/';
    write_name(path_ + directory_length_ + 1, number, wire::kNewControlFile);
    fd_ = open_at(directory_, name(), O_RDWR | O_CREAT | O_EXCL, kFileMode);
    is_new_ = fd_ >= 0;
    return is_new_;
}

bool AppFile::create(uint64_t allocated, uint64_t size) {
    const char* const parent = app_parent();
    if (parent == nullptr || !app_directory_below(parent, path_) || !open_directory()) return false;
    static bool has_looked_for_dead = false;
    if (!has_looked_for_dead) remove_some_dead_files(directory_, kDeadFilesAtStart);
    has_looked_for_dead = true;
    return create_here(allocated, size);
}

// Children that end by _exit() or exec leave their files: each clears away more than it may leave.
bool app_directory_beside(const char* file, char (&path)[kMaxAppPath]) {
    char parent[kMaxAppPath];
    PathWriter writer(parent);
    if (!writer.add(file).is_whole()) return false;
    for (int i = 0; i < 2; ++i) {
        char* const end = strrchr(parent, '/');
        if (end == nullptr) return false;
        *end = '\0';
    }
    return app_directory_below(parent, path);
}

bool AppFile::create_beside(const char* earlier, uint64_t allocated, uint64_t size) {
    if (!app_directory_beside(earlier, path_) || !open_directory()) return false;
    remove_some_dead_files(directory_, kDeadFilesOfChild);
    return create_here(allocated, size);
}

bool AppFile::create_here(uint64_t allocated, uint64_t size) {
    if (!may_have_files_of(size)) return false;
    constexpr int kAttempts = 4;
    for (int i = 0; i < kAttempts; ++i) {
        if (!create_named(random_number())) return false;
        if (lock(fd_)) return allocate(fd_, allocated, size);
        (void)unlinkat(directory_, name(), 0);
        close_fd(fd_);
        fd_ = -1;
        is_new_ = false;
    }
    return false;
}

bool AppFile::publish() {
    char new_name[kNameSize];
    memcpy(new_name, name(), kNameSize);
    char* const suffix = path_ + directory_length_ + 1 + wire::kControlFileDigits;
    memcpy(suffix, wire::kControlFile, sizeof wire::kControlFile);
    is_new_ = renameat(directory_, new_name, directory_, name()) != 0;
    if (is_new_) memcpy(suffix, wire::kNewControlFile, sizeof wire::kNewControlFile);
    return !is_new_;
}

int AppFile::take_fd() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
}

}  // namespace leat::tracer
