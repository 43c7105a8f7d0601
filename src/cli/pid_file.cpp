#include "cli/pid_file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/unique_fd.hpp"

namespace leat::cli {

// Writes the file under another name and renames it: readers never find half of it, and a link at `path` is replaced.
Result<PidFile> PidFile::create(const std::string& path) {
    struct stat there {};
    const bool is_other = ::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISLNK(there.st_mode);
    if (is_other) return refused("the pid file {} exists and is no file: choose another with --pid-file", path);
    std::string other = path + ".XXXXXX";
    const UniqueFd file(::mkostemp(other.data(), O_CLOEXEC));
    if (!file.is_open()) return io_error("cannot write the pid file " + path);
    const std::string text = std::to_string(::getpid()) + "\n";
    const bool is_written = ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                            ::fchmod(file.get(), 0644) == 0 && ::rename(other.c_str(), path.c_str()) == 0;
    if (is_written) return PidFile(path);
    const int error = errno;
    ::unlink(other.c_str());
    errno = error;
    return io_error("cannot write the pid file " + path);
}

PidFile::~PidFile() {
    if (path_.empty()) return;
    pid_t pid = 0;
    std::ifstream(path_) >> pid;
    if (pid == ::getpid()) ::unlink(path_.c_str());
}

}  // namespace leat::cli
