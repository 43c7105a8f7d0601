// The directory where this user's programs keep their control files, for daemons to find. See
// docs/formats/runtime-directory.md.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace leat::tracer {

// With its NUL. Where a path would be longer, there is no file.
inline constexpr size_t kMaxAppPath = 256;

// Takes over from the environment which directory has the application directories of all users: a program may change it
// later, also under threads that look at it. Not async-signal-safe; under the RegistrationLock.
void find_app_parent();
// That directory. nullptr: it has not been looked for, or LEAT_RUNTIME_DIR named no absolute path of that length, so
// this process has none.
const char* app_parent();

// Of the effective user, who may be another one next time. It may not exist yet. False: the path is too long, or the
// user is not trusted (trust.hpp).
bool app_directory_below(const char* parent, char (&path)[kMaxAppPath]);

// The same, beside the directory that this control file is in.
bool app_directory_beside(const char* file, char (&path)[kMaxAppPath]);

// Opens one that belongs to the effective user, and is nobody else's to write; -1: it is not such a directory.
// Async-signal-safe; changes errno; no cancellation point.
int open_own_directory(const char* path);

// The number that the control file of this path is called by, which AppFile made.
uint64_t app_file_number(const char* path);

// A file that is larger than the process may write ends it with SIGXFSZ.
bool may_have_files_of(uint64_t size);

// Makes new memory (memfd) `size` long. Its first `allocated` bytes are there from the start: where memory is limited,
// who touches one that is not may fault. False: there is none, or not so much. Async-signal-safe; changes errno.
bool make_room(int fd, uint64_t allocated, uint64_t size);

// A control file while it is being made. Nothing here waits for anybody.
//
//     create()     HEX.new, locked: nobody takes it for a dead program's
//     publish()    HEX.app: daemons read it
//
// The lock belongs to the open file, so it is there as long as any mapping that was made from fd(). What was not
// published is removed with this object; its descriptors are closed in any case. No cancellation point.
class AppFile {
  public:
    AppFile() = default;
    ~AppFile();
    AppFile(const AppFile&) = delete;
    AppFile& operator=(const AppFile&) = delete;

    // Makes a file of `size` zeros, of which the first `allocated` have their blocks. Whoever maps those need not fear
    // a full file system. False: there is no directory, it is not ours alone, or it has no room.
    bool create(uint64_t allocated, uint64_t size);
    // The same where an earlier file of this process or of its parent is, or in another user's directory beside that
    // one, if the effective user has changed. Async-signal-safe; changes errno.
    bool create_beside(const char* earlier, uint64_t allocated, uint64_t size);
    // False: somebody has removed the file.
    bool publish();

    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] const char* path() const { return path_; }
    // From now on the caller's to close.
    int take_fd();

  private:
    bool open_directory();
    bool create_named(uint64_t number);
    bool create_here(uint64_t allocated, uint64_t size);
    [[nodiscard]] const char* name() const { return path_ + directory_length_ + 1; }

    int directory_ = -1;
    int fd_ = -1;
    bool is_new_ = false;  // it has a name, which ends in .new
    size_t directory_length_ = 0;
    char path_[kMaxAppPath] = {};
};

}  // namespace leat::tracer
