#include "cli/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <system_error>

namespace leat::cli {

namespace fs = std::filesystem;

Target target_of(fs::path path) {
    constexpr int kMostLinks = 40;  // as in the kernel
    const fs::path descriptors = fmt::format("/proc/{}/fd", ::getpid());
    std::error_code ignored;
    for (int links = 0; links < kMostLinks && fs::is_symlink(path, ignored); ++links) {
        if (int number = 0; fs::canonical(path.parent_path(), ignored) == descriptors &&
                            CLI::detail::lexical_cast(path.filename().string(), number))
            return {.path = {}, .descriptor = number};
        path = path.parent_path() / fs::read_symlink(path, ignored);
    }
    return {.path = std::move(path), .descriptor = {}};
}

Result<OutputFile> OutputFile::open(const std::string& path) {
    OutputFile file;
    struct stat status {};
    const bool exists = ::stat(path.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) return refused("{} is a directory: name a file", path);
    Target target = target_of(path);
    if (target.descriptor || (exists && !S_ISREG(status.st_mode))) {
        file.fd_ = target.descriptor ? duplicate(*target.descriptor)
                                     : UniqueFd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
        if (!file.fd_.is_open()) return io_error("cannot write " + path);
        return file;
    }
    if (exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) return io_error("cannot write " + path);
    // The file that a link stands for gives way, not the link.
    file.path_ = target.path.string();
    file.part_ = file.path_ + ".XXXXXX";
    file.fd_ = UniqueFd(::mkostemp(file.part_.data(), O_CLOEXEC));
    if (!file.fd_.is_open()) return io_error("cannot write beside " + path);
    const mode_t mask = ::umask(0);
    ::umask(mask);
    // It stays whose it was, if we may do that.
    if (exists) (void)!::fchown(file.fd_.get(), status.st_uid, status.st_gid);
    if (::fchmod(file.fd_.get(), exists ? status.st_mode & 0777U : 0666U & ~mask) != 0)
        return io_error("cannot write " + file.part_);
    return file;
}

OutputFile OutputFile::standard_output() {
    OutputFile file;
    file.is_standard_output_ = true;
    return file;
}

OutputFile::~OutputFile() {
    if (!part_.empty()) ::unlink(part_.c_str());
}

Result<void> OutputFile::finish() {
    if (part_.empty()) return {};
    // Some file systems say only then that they have no room.
    if (::fsync(fd_.get()) != 0) return io_error("cannot write " + path_);
    if (::rename(part_.c_str(), path_.c_str()) != 0) return io_error("cannot write " + path_);
    part_.clear();
    return {};
}

Result<void> redirect_standard_output(const std::string& path) {
    constexpr mode_t kMode = 0666;
    const Target target = target_of(path);
    const UniqueFd file = target.descriptor
                              ? duplicate(*target.descriptor)
                              : UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, kMode));
    struct stat status {};
    if (!file.is_open() || ::fstat(file.get(), &status) != 0) return io_error("cannot write " + path);
    const bool is_emptied = !target.descriptor && S_ISREG(status.st_mode);
    if ((is_emptied && ::ftruncate(file.get(), 0) != 0) || ::dup2(file.get(), STDOUT_FILENO) < 0)
        return io_error("cannot write " + path);
    return {};
}

}  // namespace leat::cli
