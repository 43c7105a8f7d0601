#include "relay/store/confined_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/check.hpp"
#include "base/file.hpp"

namespace leat::relay {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::uint64_t kSmallSuffix = 20;
constexpr std::uint64_t kMaxSuffix = 1000;

std::uint32_t random_number() {
    std::uint32_t number = 0;
    LEAT_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
    return number;
}

// The kernel refuses every way out, also one that somebody else puts there between our check and our use: symbolic
// links, "..", absolute paths.
UniqueFd open_beneath(int directory, const std::string& path, int flags, mode_t mode = 0) {
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
    how.mode = mode;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how)));
}

// The first step of a path, which it leaves without it.
std::string take_step(std::string_view& path) {
    const std::size_t slash = path.find('/');
    std::string step(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    return step;
}

}  // namespace

Result<ConfinedDirectory> ConfinedDirectory::open_root(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.is_open()) return io_error(fmt::format("cannot use {} for output", path));
    // Old kernels say ENOSYS, and so do sandboxes that do not know the call, or EPERM.
    if (!open_beneath(fd.get(), ".", O_PATH).is_open() && (errno == ENOSYS || errno == EPERM))
        return unsupported(
            "openat2() does not work here ({}), and without it peers could reach files outside {}: use Linux 5.6 or "
            "later, and let the sandbox (seccomp) allow openat2",
            std::strerror(errno), path);
    const bool may_write = ::faccessat(fd.get(), ".", W_OK | X_OK, 0) == 0 || (errno != EACCES && errno != EROFS);
    if (!may_write) return io_error(fmt::format("cannot use {} for output", path));
    Root root{.path = std::filesystem::canonical(path, error)};
    root.parent = UniqueFd(::open(root.path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return ConfinedDirectory(std::move(fd), std::move(root));
}

bool ConfinedDirectory::is_removed() const { return has_name_ && leat::is_removed(fd()); }

// Nobody chose what others may have put there meanwhile.
Result<bool> ConfinedDirectory::renew_root_if_removed() {
    if (!is_removed()) return false;
    const std::string name = root_.path.filename().string();
    const auto trouble = [this] { return fmt::format("the output directory {} was removed", root_.path.string()); };
    const bool is_made = ::mkdirat(root_.parent.get(), name.c_str(), 0777) == 0;  // as open_root() makes it
    if (!is_made && errno == ENOENT) return refused("{}, with what it was in: start the relay again", trouble());
    if (!is_made && errno != EEXIST) return io_error(trouble());
    UniqueFd fd(::openat(root_.parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    if (!fd.is_open() || ::fstat(fd.get(), &status) != 0) return io_error(trouble());
    if (status.st_uid != ::geteuid() && status.st_uid != 0)
        return refused("{}, and what is there now is another user's: start the relay again to use it", trouble());
    fd_ = std::move(fd);
    has_name_ = !leat::is_removed(fd_.get());
    return true;
}

ConfinedDirectory::ConfinedDirectory(UniqueFd fd) : fd_(std::move(fd)), has_name_(!leat::is_removed(fd_.get())) {}

// Step by step, each from the one before: openat2() makes no directories, and mkdirat() alone would follow links.
Result<ConfinedDirectory> ConfinedDirectory::make(std::string_view path) const {
    UniqueFd here = duplicate(fd());
    if (!here.is_open()) return io_error("cannot open the output directory again");
    while (!path.empty()) {
        const std::string step = take_step(path);
        if (::mkdirat(here.get(), step.c_str(), 0770) != 0 && errno != EEXIST)
            return io_error(fmt::format("cannot create directory {}", step));
        UniqueFd next = open_beneath(here.get(), step, O_RDONLY | O_DIRECTORY);
        if (!next.is_open()) return io_error(fmt::format("cannot open directory {}", step));
        here = std::move(next);
    }
    return ConfinedDirectory(std::move(here));
}

Result<ConfinedDirectory::Made> ConfinedDirectory::make_fresh(const std::string& path) const {
    const auto [parent_path, name] = split_last_step(path);
    const ConfinedDirectory parent = LEAT_TRY(make(parent_path));
    std::string candidate = name;
    for (std::uint64_t number = 2; ::mkdirat(parent.fd(), candidate.c_str(), 0770) != 0; ++number) {
        if (errno != EEXIST || number == kMaxSuffix)
            return io_error(fmt::format("cannot create directory {}", candidate));
        // Many at once of one name need not try all numbers.
        candidate = fmt::format("{}-{}", name, number <= kSmallSuffix ? number : random_number());
    }
    auto made = parent.open(candidate);
    // Without a descriptor it is tried again and again: each time would leave a directory.
    if (!made) {
        (void)::unlinkat(parent.fd(), candidate.c_str(), AT_REMOVEDIR);
        return tl::unexpected(std::move(made).error());
    }
    return Made{*std::move(made), parent_path.empty() ? candidate : parent_path + "/" + candidate};
}

Result<ConfinedDirectory> ConfinedDirectory::open(std::string_view path) const {
    UniqueFd fd = open_beneath(this->fd(), path.empty() ? "." : std::string(path), O_RDONLY | O_DIRECTORY);
    if (!fd.is_open()) return io_error(fmt::format("cannot open directory {}", path));
    return ConfinedDirectory(std::move(fd));
}

bool ConfinedDirectory::exists(const std::string& path) const { return open_beneath(fd(), path, O_PATH).is_open(); }

Result<UniqueFd> ConfinedDirectory::create_file(const std::string& name) const {
    UniqueFd file = open_beneath(fd(), name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0660);
    if (!file.is_open() && errno == EEXIST) return refused("{} exists already", name);
    if (!file.is_open()) return io_error(fmt::format("cannot create {}", name));
    return file;
}

// Not blocked by what may lie there instead of a file, such as a pipe that nobody writes to.
Result<UniqueFd> ConfinedDirectory::open_file(const std::string& name, int flags) const {
    UniqueFd file = open_beneath(fd(), name, flags | O_NOFOLLOW | O_NONBLOCK);
    if (!file.is_open()) return io_error(fmt::format("cannot open {}", name));
    return file;
}

Result<void> ConfinedDirectory::rename(const std::string& from, const ConfinedDirectory& to_directory,
                                       const std::string& to) const {
    if (::renameat(fd(), from.c_str(), to_directory.fd(), to.c_str()) == 0) return {};
    return io_error(fmt::format("cannot move {} to {}", from, to));
}

// All that is below, without leaving the directory: a link in it is removed, and not what it points to.
Result<void> ConfinedDirectory::remove(const std::string& name) const {
    if (::unlinkat(fd(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && errno != EPERM) return io_error(fmt::format("cannot remove {}", name));
    // An empty one takes no descriptors, of which there may be none.
    if (::unlinkat(fd(), name.c_str(), AT_REMOVEDIR) == 0) return {};
    if (errno != ENOTEMPTY && errno != EEXIST) return io_error(fmt::format("cannot remove {}", name));
    const ConfinedDirectory inner = LEAT_TRY(open(name));
    for (const std::string& entry : LEAT_TRY(inner.entries())) LEAT_TRY(inner.remove(entry));
    if (::unlinkat(fd(), name.c_str(), AT_REMOVEDIR) != 0) return io_error(fmt::format("cannot remove {}", name));
    return {};
}

Result<std::vector<std::string>> ConfinedDirectory::entries() const {
    std::vector<std::string> names;
    const int again = ::openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (again < 0) return io_error("cannot list a directory");
    const auto close = [](DIR* directory) { ::closedir(directory); };
    const std::unique_ptr<DIR, decltype(close)> listing(::fdopendir(again), close);
    if (listing == nullptr) {
        ::close(again);
        return fail(ErrorKind::kIo, "cannot list a directory");
    }
    while (const dirent* entry = ::readdir(listing.get())) {
        const std::string name = &entry->d_name[0];
        if (name != "." && name != "..") names.push_back(name);
    }
    return names;
}

Result<std::string> parse_name(const std::string& name) {
    if (name.empty()) return refused("a name is empty");
    if (name.size() > 255) return refused("a name has {} bytes; a file name has at most 255", name.size());
    if (name == "." || name == "..") return refused("\"{}\" is no name", name);
    for (const char c : name)
        if (c == '/' || static_cast<unsigned char>(c) < ' ' || c == 0x7f)
            return refused("a name contains a slash or a control character");
    return name;
}

Result<std::string> parse_path(const std::string& path) {
    std::string parsed;
    std::string_view rest(path);
    std::size_t depth = 0;
    while (!rest.empty()) {
        const std::string step = take_step(rest);
        if (step.empty()) continue;
        const std::string name = LEAT_TRY(parse_name(step));
        if (++depth > kMaxDepth) return refused("a path has more than {} directories", kMaxDepth);
        if (!parsed.empty()) parsed += '/';
        parsed += name;
    }
    return parsed;
}

std::pair<std::string, std::string> split_last_step(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {"", path};
    return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace leat::relay
