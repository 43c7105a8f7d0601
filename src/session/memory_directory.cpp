#include "session/memory_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/file.hpp"
#include "base/local_time.hpp"
#include "ring/ring_set.hpp"

namespace leat::session {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnersDirectory = 0700;
constexpr std::array<std::string_view, 3> kFiles{"registry", "metadata", "progress"};
constexpr char kNewDescription[] = "trace.json.new";
constexpr std::string_view kRings = ".rings";

// Nobody else may have put something in the place of what we made.
Result<UniqueFd> open_directory(int in, const fs::path& path) {
    UniqueFd fd(::openat(in, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!fd.is_open() || ::fstat(fd.get(), &status) != 0) return io_error(fmt::format("cannot open {}", path.string()));
    if (status.st_uid != ::geteuid()) return refused("{} is not ours", path.string());
    return fd;
}

Result<UniqueFd> open_below(UniqueFd directory, const fs::path& path, bool is_made) {
    for (const fs::path& name : path) {
        if (is_made && ::mkdirat(directory.get(), name.c_str(), kOwnersDirectory) != 0 && errno != EEXIST)
            return io_error(fmt::format("cannot make {}", path.string()));
        directory = LEAT_TRY(open_directory(directory.get(), name));
    }
    return directory;
}

bool is_file_of_ours(std::string_view name) {
    for (const std::string_view known : kFiles)
        if (name == known) return true;
    return name.ends_with(kRings) || name == kNewDescription;
}

// Left by a recorder that was killed while it made a trace: a description is there before any program has the rings,
// and with a record or a count in them some program has.
bool is_unused(int directory) {
    const UniqueFd description(::openat(directory, MemoryDirectory::kDescription, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (!description.is_open()) return errno == ENOENT;
    if (::flock(description.get(), LOCK_EX | LOCK_NB) != 0) return false;
    const auto names = names_in(directory);
    return names && std::ranges::none_of(*names, [directory](const std::string& name) {
               if (!name.ends_with(kRings)) return false;
               const UniqueFd rings(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
               return !rings.is_open() || ring::RingSet::may_be_used(rings.get());
           });
}

// The description first: what is left, if we are killed, is no trace any more.
void remove_files(int directory) {
    ::unlinkat(directory, MemoryDirectory::kDescription, 0);
    for (const std::string& name : names_in(directory).value_or(std::vector<std::string>()))
        if (is_file_of_ours(name)) ::unlinkat(directory, name.c_str(), 0);
}

void remove_if_unused(const fs::path& path) {
    const auto directory = open_directory(AT_FDCWD, path);
    if (!directory || !is_unused(directory->get())) return;
    remove_files(directory->get());
    ::rmdir(path.c_str());
}

}  // namespace

Result<fs::path> MemoryDirectory::make_for_session(const fs::path& parent, const std::string& name) {
    std::error_code error;
    fs::create_directories(parent, error);
    if (error) return fail(ErrorKind::kIo, "cannot create {}: {}", parent.string(), error.message());
    const fs::path base = fs::absolute(parent, error) / fmt::format("{}-{}", name, local_time_text("%Y%m%d-%H%M%S"));
    fs::path path = base;
    for (int number = 2; ::mkdir(path.c_str(), kOwnersDirectory) != 0; ++number) {
        if (errno != EEXIST) return io_error(fmt::format("cannot create {}", path.string()));
        path = fmt::format("{}-{}", base.string(), number);
    }
    auto place = MemoryPlace::of_directory(LEAT_TRY(open_directory(AT_FDCWD, path)), path);
    if (place) return path;
    ::rmdir(path.c_str());
    return tl::unexpected(std::move(place).error());
}

// What is deeper goes first.
void MemoryDirectory::remove_of_session(const fs::path& of_session) {
    std::error_code error;
    std::vector<fs::path> below;
    for (auto entry = fs::recursive_directory_iterator(of_session, error); !error && entry != fs::end(entry);
         entry.increment(error))
        if (std::error_code unknown; fs::is_directory(entry->symlink_status(unknown))) below.push_back(entry->path());
    for (auto path = below.rbegin(); path != below.rend(); ++path) remove_if_unused(*path);
    (void)::rmdir(of_session.c_str());
}

Result<MemoryDirectory> MemoryDirectory::create(const fs::path& of_session, const std::string& trace_path) {
    MemoryDirectory made;
    made.of_session_ = of_session;
    made.trace_path_ = trace_path;
    UniqueFd directory = LEAT_TRY(open_below(LEAT_TRY(open_directory(AT_FDCWD, of_session)), trace_path, true));
    made.place_ = LEAT_TRY(MemoryPlace::of_directory(std::move(directory), of_session / trace_path));
    if (!is_unused(made.place_.directory()))
        return refused("{} has the rings of another trace", made.place_.path().string());
    remove_files(made.place_.directory());
    made.is_ours_to_remove_ = true;
    return made;
}

Result<MemoryDirectory> MemoryDirectory::adopt(const fs::path& of_session, const std::string& trace_path,
                                               UniqueFd lock) {
    MemoryDirectory known;
    known.of_session_ = of_session;
    known.trace_path_ = trace_path;
    UniqueFd directory = LEAT_TRY(open_below(LEAT_TRY(open_directory(AT_FDCWD, of_session)), trace_path, false));
    known.place_ = LEAT_TRY(MemoryPlace::of_directory(std::move(directory), of_session / trace_path));
    known.lock_ = std::move(lock);
    return known;
}

MemoryDirectory::~MemoryDirectory() {
    if (is_ours_to_remove_) remove();
}

// Whole, and locked before it has its name: nobody takes it for that of a trace which nobody records.
Result<void> MemoryDirectory::describe(std::string_view text) {
    const int in = place_.directory();
    ::unlinkat(in, kNewDescription, 0);
    lock_ = LEAT_TRY(place_.make(kNewDescription));
    LEAT_TRY(write_all(lock_.get(), std::as_bytes(std::span(text))));
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 || ::renameat(in, kNewDescription, in, kDescription) != 0)
        return io_error(fmt::format("cannot make {}", (place_.path() / kDescription).string()));
    is_ours_to_remove_ = false;
    return {};
}

// Then the directories that are empty.
void MemoryDirectory::remove() {
    is_ours_to_remove_ = false;
    remove_files(place_.directory());
    for (fs::path path = trace_path_; !path.empty(); path = path.parent_path())
        if (::rmdir((of_session_ / path).c_str()) != 0) return;
}

}  // namespace leat::session
