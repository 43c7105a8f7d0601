#include "sessiond/app_directories.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "base/descriptors.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "sessiond/program_log.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

// Of all users together: what a hostile one costs the daemon.
constexpr std::size_t kMaxDirectories = 4096;
// Of one user. Each costs a descriptor.
constexpr std::size_t kMaxFiles = 16384;
// Of one user, likewise: files that have lost their names.
constexpr std::ptrdiff_t kMaxNameless = 1024;
// Names of one user that are looked at, whatever they are of.
constexpr std::size_t kMaxNames = 4 * kMaxFiles;
// Names of one user that are remembered. The rest is refused silently. Where so many are found at one look, it ends:
// names cost their user nothing, and us a call each.
constexpr std::size_t kMaxRefused = 32;
// Files of one user that are unfinished, at one look; and names of such files, whose programs may be dead.
constexpr std::size_t kMaxUnfinished = 256;
constexpr std::size_t kMaxNewNames = 16 * kMaxUnfinished;

// Of 64 KiB, at one look: twice what the kernel queues (fs.inotify.max_queued_events, by default 16,384 of 48 bytes).
constexpr std::size_t kMaxReads = 24;
// Less room than that may be left when more has been queued.
constexpr std::size_t kLongestNews = sizeof(inotify_event) + NAME_MAX + 1;

constexpr std::uint32_t kWatchedInParent = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR;
// IN_CLOSE_WRITE comes when the last mapping goes.
constexpr std::uint32_t kWatchedInDirectory =
    IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE | IN_ONLYDIR | IN_EXCL_UNLINK;

bool is_control_file_name(std::string_view name, std::string_view ending) {
    const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    return name.size() == wire::kControlFileDigits + ending.size() && name.ends_with(ending) &&
           std::ranges::all_of(name.substr(0, wire::kControlFileDigits), is_digit);
}

std::optional<uid_t> user_of(std::string_view directory_name) {
    constexpr std::string_view kPrefix = wire::kAppDirectoryPrefix;
    if (!directory_name.starts_with(kPrefix)) return std::nullopt;
    uid_t uid = 0;
    const char* const end = directory_name.data() + directory_name.size();
    const auto [stop, error] = std::from_chars(directory_name.data() + kPrefix.size(), end, uid);
    // Not "leat-01000": a user has one directory.
    const bool is_number =
        error == std::errc{} && stop == end && directory_name.substr(kPrefix.size()) == std::to_string(uid);
    return is_number ? std::optional(uid) : std::nullopt;
}

// Nobody else can put files there.
bool is_private_directory(const struct stat& status, uid_t uid) {
    return S_ISDIR(status.st_mode) && status.st_uid == uid && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// `name` is that of a control file.
FileId id_of(const struct stat& status, const std::string& name) {
    FileId id{status.st_dev, status.st_ino};
    std::from_chars(name.data(), name.data() + wire::kControlFileDigits, id.number, 16);
    return id;
}

// Opened for reading alone: closing it must not tell of itself.
UniqueFd open_to_lock(int directory, const std::string& name) {
    return UniqueFd(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

// There is no descriptor, or no memory: another time there may be.
bool is_for_want(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

Names names_or_none(int directory, std::size_t most, AppDirectories::News& news) {
    auto names = names_in(directory, most);
    news.is_incomplete |= !names;
    return names ? *std::move(names) : Names();
}

// No process has it mapped.
bool has_no_process(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0; }

// The file, if somebody is about to finish it. One that a dead program has left some time ago is removed.
std::optional<AppDirectories::Unfinished> find_unfinished(int directory, const std::string& name, uid_t uid) {
    const UniqueFd file = open_to_lock(directory, name);
    struct stat status {};
    if (!file.is_open() || ::fstat(file.get(), &status) != 0) return std::nullopt;
    if (!has_no_process(file.get())) return AppDirectories::Unfinished{uid, status.st_dev, status.st_ino};
    if (!wire::may_be_in_the_making(status.st_mtim.tv_sec, ::time(nullptr))) ::unlinkat(directory, name.c_str(), 0);
    return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<AppDirectories>> AppDirectories::open(const fs::path& parent, std::optional<uid_t> only,
                                                             std::function<bool()> is_ours) {
    UniqueFd inotify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    if (!inotify.is_open()) return io_error("cannot watch directories: see fs.inotify.max_user_instances");
    UniqueFd directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.is_open()) return io_error(fmt::format("cannot open {}", parent.string()));
    std::unique_ptr<AppDirectories> directories(
        new AppDirectories(std::move(inotify), std::move(directory), only, std::move(is_ours)));
    LEAT_TRY(directories->begin(parent));
    return directories;
}

Result<void> AppDirectories::begin(const fs::path& parent) {
    if (!only_) {
        parent_watch_ = ::inotify_add_watch(inotify_.get(), parent.c_str(), kWatchedInParent);
        if (parent_watch_ < 0) return io_error(fmt::format("cannot watch {}", parent.string()));
    }
    // Our own user's is there before anybody else can take the name.
    const std::string name = wire::kAppDirectoryPrefix + std::to_string(only_.value_or(::geteuid()));
    if (::mkdirat(parent_.get(), name.c_str(), 0700) != 0 && errno != EEXIST && only_)
        return io_error(fmt::format("cannot make {}", (parent / name).string()));
    return {};
}

AppDirectories::News AppDirectories::look() {
    News news;
    // Of the directories of all users, the kernel tells after that.
    if (only_ ? directories_.empty() : !std::exchange(has_looked_, true)) add_all_directories(news);
    read_news(news);
    add_arrived(news);
    // Of those that cannot be watched, nobody tells; and who stops a session relies on it that all are known.
    for (auto& [watch, directory] : directories_)
        if (watch < 0) scan(directory, news);
    return news;
}

void AppDirectories::read_news(News& news) {
    alignas(inotify_event) std::array<char, 65536> buffer;  // 64 KiB: to clear it took longer than to read
    // Whoever makes more news than we can read holds up nobody: the rest is for the next time.
    for (std::size_t turn = 0; turn < kMaxReads; ++turn) {
        const ssize_t size = ::read(inotify_.get(), buffer.data(), buffer.size());
        if (size <= 0) return;
        for (ssize_t at = 0; at < size;) {
            inotify_event event{};
            std::memcpy(&event, buffer.data() + at, sizeof event);
            const char* const name = buffer.data() + at + sizeof event;
            handle(event.wd, event.mask, event.len == 0 ? std::string() : std::string(name), news);
            at += static_cast<ssize_t>(sizeof event + event.len);
        }
        if (static_cast<std::size_t>(size) <= buffer.size() - kLongestNews) return;
    }
}

// Once each, however often it was renamed meanwhile. One that was renamed away, and back, is the one that is known.
void AppDirectories::add_arrived(News& news) {
    std::set<FileId> there;
    for (const auto& [watch, name] : std::exchange(arrived_, {})) {
        const auto directory = directories_.find(watch);
        if (directory == directories_.end() || !is_ours_()) continue;
        add_file(directory->second, name, news);
        const auto file = directory->second.files.find(name);
        if (file != directory->second.files.end()) there.insert(file->second);
    }
    std::set<FileId> back;
    for (const FileId& id : news.gone)
        if (there.contains(id)) back.insert(id);
    std::erase_if(news.gone, [&back](const FileId& id) { return back.contains(id); });
    std::erase_if(news.found, [&back](const Found& file) { return back.contains(file.id); });
}

AppDirectories::News AppDirectories::sweep() {
    News news = look();
    check_all(news);
    return news;
}

void AppDirectories::check_all(News& news) {
    add_all_directories(news);
    for (const auto& [watch, file] : nameless_) news.gone.push_back(file.id);
    for (auto& [watch, directory] : directories_) {
        const auto known = directory.files;
        for (const auto& [name, id] : known) check_file(directory, name, news);
        scan(directory, news);
    }
}

void AppDirectories::add_all_directories(News& news) {
    news.is_of_all = true;
    if (only_) return add_directory(wire::kAppDirectoryPrefix + std::to_string(*only_), news);
    for (const std::string& name : names_or_none(parent_.get(), SIZE_MAX, news)) add_directory(name, news);
}

void AppDirectories::add_directory(const std::string& name, News& news) {
    const auto uid = user_of(name);
    if (!uid) return;
    // Anybody may make any number of such names: most are done with here.
    struct stat status {};
    if (::fstatat(parent_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (!is_private_directory(status, *uid)) return refuse_directory(name, *uid, status.st_uid);
    if (!is_ours_()) return;
    UniqueFd fd(::openat(parent_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    news.is_incomplete |= !fd.is_open() && is_for_want(errno);
    if (!fd.is_open() || ::fstat(fd.get(), &status) != 0 || !is_private_directory(status, *uid)) return;
    refused_.erase(name);
    // What was opened is watched, whatever has the name by now.
    const auto [watch, was_watched] = watch_directory(fd.get(), *uid, status.st_ino);
    if (!directories_.contains(watch) && !make_room()) {
        ::inotify_rm_watch(inotify_.get(), watch);
        return;
    }
    const auto [entry, is_new] = directories_.try_emplace(
        watch, Directory{.watch = watch, .fd = std::move(fd), .uid = *uid, .name = name, .inode = status.st_ino});
    if (was_watched) return;
    // A user may have renamed the one of before, and could keep any number of them.
    std::erase_if(directories_, [&](const auto& other) {
        if (other.second.uid != *uid || other.first == watch) return false;
        ::inotify_rm_watch(inotify_.get(), other.first);
        for (const auto& [file, id] : other.second.files) news.gone.push_back(id);
        return true;
    });
    scan(entry->second, news);
}

// Without a watch, a directory has a number below 0, and what is in it is found when somebody looks: each sweep, and
// for whoever registers.
AppDirectories::Watched AppDirectories::watch_directory(int fd, uid_t uid, ino_t inode) {
    const std::string path = fmt::format("/proc/self/fd/{}", fd);
    const int watch = ::inotify_add_watch(inotify_.get(), path.c_str(), kWatchedInDirectory);
    if (directories_.contains(watch)) return {watch, true};
    const auto known = std::ranges::find_if(
        directories_, [&](const auto& entry) { return entry.second.uid == uid && entry.second.inode == inode; });
    if (watch < 0) {
        log_want_of_watches();
        if (known == directories_.end()) return {--last_unwatched_, false};
        return {known->first, known->first >= 0};
    }
    if (known != directories_.end() && known->first < 0) {
        for (Dead& dead : dead_)
            if (dead.first == known->first) dead.first = watch;
        auto entry = directories_.extract(known);
        entry.key() = entry.mapped().watch = watch;
        directories_.insert(std::move(entry));
    }
    return {watch, false};
}

void AppDirectories::log_want_of_watches() {
    constexpr std::chrono::minutes kToldOncePer{1};
    const auto now = std::chrono::steady_clock::now();
    if (told_of_watches_ && now - *told_of_watches_ < kToldOncePer) return;
    told_of_watches_ = now;
    log_error("a directory of programs cannot be watched ({}): they are found late; raise fs.inotify.max_user_watches",
              std::strerror(errno));
}

// As in a container that shares the parent with us, where the user is called otherwise; or somebody means harm. Told
// once, at the cost of whose directory it is.
void AppDirectories::refuse_directory(const std::string& name, uid_t uid, uid_t owner) {
    if (refused_.contains(name)) return;
    if (refused_.size() >= kMaxRefused) refused_.clear();
    refused_.insert(name);
    the_program_log().warn(owner,
                           fmt::format("{} belongs to user {}, or others may write there: programs of user {} are not "
                                       "traced until it is removed",
                                       name, owner, uid));
}

// One without programs gives up its place: look_at() takes it up again.
bool AppDirectories::make_room() {
    if (directories_.size() < kMaxDirectories) return true;
    const auto is_unused = [this](const auto& entry) {
        return entry.second.files.empty() && std::ranges::count(dead_, entry.first, &Dead::first) == 0;
    };
    const auto unused = std::ranges::find_if(directories_, is_unused);
    if (unused == directories_.end()) return false;
    ::inotify_rm_watch(inotify_.get(), unused->first);
    directories_.erase(unused);
    return true;
}

AppDirectories::News AppDirectories::look_at(uid_t uid) {
    News news;
    add_directory(wire::kAppDirectoryPrefix + std::to_string(uid), news);
    return news;
}

// Programs that are older than we are. What was left half made by one that is dead goes away.
void AppDirectories::scan(Directory& directory, News& news) {
    if (!is_ours_()) return;
    std::size_t refused = 0;
    std::size_t new_names = 0;
    for (const std::string& name : names_or_none(directory.fd.get(), kMaxNames, news)) {
        if (is_control_file_name(name, wire::kControlFile) && !add_file(directory, name, news) &&
            ++refused > kMaxRefused)
            return;
        if (is_control_file_name(name, wire::kNewControlFile) && ++new_names <= kMaxNewNames)
            (void)find_unfinished(directory.fd.get(), name, directory.uid);
    }
}

bool AppDirectories::add_file(Directory& directory, const std::string& name, News& news) {
    if (directory.files.contains(name) || is_dead(directory.watch, name)) return true;
    if (directory.files.size() >= kMaxFiles) return refuse(directory, name, "the user has too many programs");
    UniqueFd fd(::openat(directory.fd.get(), name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!fd.is_open() && errno == ENOENT) return true;
    // A sweep finds it again, when there are descriptors.
    if (is_among_the_last(fd)) {
        log_want_of_descriptors("programs are not traced");
        news.is_incomplete = true;
        return true;
    }
    struct stat status {};
    if (!fd.is_open() || ::fstat(fd.get(), &status) != 0) return refuse(directory, name, std::strerror(errno));
    if (!S_ISREG(status.st_mode)) return refuse(directory, name, "it is no regular file");
    if (status.st_uid != directory.uid)
        return refuse(directory, name, fmt::format("it belongs to user {}", status.st_uid));
    if (status.st_nlink != 1) return refuse(directory, name, fmt::format("it has {} names", status.st_nlink));
    const FileId id = id_of(status, name);
    // A dead program's file is found, too: it may have counted something.
    const bool is_dead = has_no_process(fd.get());
    directory.files.emplace(name, id);
    news.found.push_back({id, std::move(fd), directory.uid, status.st_gid});
    if (!is_dead) return true;
    dead_.emplace_back(directory.watch, name);
    forget_file(directory, name, news);
    return true;
}

std::optional<AppDirectories::Found> AppDirectories::open_again(const FileId& id, uid_t uid) const {
    for (const auto& [watch, directory] : directories_) {
        if (directory.uid != uid) continue;
        const auto named = std::ranges::find_if(directory.files, [&id](const auto& file) { return file.second == id; });
        if (named == directory.files.end()) continue;
        const std::string& name = named->first;
        UniqueFd fd(
            ::openat(directory.fd.get(), name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        struct stat status {};
        if (is_among_the_last(fd) || !fd.is_open() || ::fstat(fd.get(), &status) != 0) return std::nullopt;
        if (!S_ISREG(status.st_mode) || status.st_uid != uid || status.st_nlink != 1 || id_of(status, name) != id)
            return std::nullopt;
        return Found{id, std::move(fd), uid, status.st_gid};
    }
    return std::nullopt;
}

// Told once, as sweeps find it again.
bool AppDirectories::refuse(Directory& directory, const std::string& name, std::string_view reason) {
    if (directory.refused.size() < kMaxRefused && directory.refused.insert(name).second)
        the_program_log().warn(
            directory.uid, fmt::format("{}/{} is not the control file of a program: {}", directory.name, name, reason));
    return false;
}

void AppDirectories::check_file(Directory& directory, const std::string& name, News& news) {
    const auto known = directory.files.find(name);
    if (known == directory.files.end()) return;
    const UniqueFd file = open_to_lock(directory.fd.get(), name);
    // Nothing is known of it: a sweep looks again.
    if (!file.is_open() && is_for_want(errno)) {
        log_want_of_descriptors("whether programs have ended is not known");
        return;
    }
    struct stat status {};
    if (file.is_open() && ::fstat(file.get(), &status) == 0 && id_of(status, name) == known->second &&
        !has_no_process(file.get()))
        return;
    if (file.is_open()) dead_.emplace_back(directory.watch, name);
    forget_file(directory, name, news);
}

void AppDirectories::forget_file(Directory& directory, const std::string& name, News& news) {
    const auto known = directory.files.find(name);
    if (known == directory.files.end()) return;
    news.gone.push_back(known->second);
    directory.files.erase(known);
}

void AppDirectories::forget_directory(int watch, News& news) {
    const auto known = directories_.find(watch);
    if (known == directories_.end()) return;
    for (const auto& [name, id] : known->second.files) news.gone.push_back(id);
    directories_.erase(known);
}

void AppDirectories::handle(int watch, std::uint32_t mask, const std::string& name, News& news) {
    if ((mask & IN_Q_OVERFLOW) != 0) return check_all(news);
    if (watch == parent_watch_) return add_directory(name, news);
    if (const auto file = nameless_.find(watch); file != nameless_.end()) return news.gone.push_back(file->second.id);
    const auto known = directories_.find(watch);
    if (known == directories_.end()) return;
    if ((mask & IN_IGNORED) != 0) return forget_directory(watch, news);
    if (!is_control_file_name(name, wire::kControlFile)) return;
    if ((mask & (IN_DELETE | IN_MOVED_FROM)) != 0) known->second.refused.erase(name);
    if ((mask & IN_MOVED_TO) != 0) {
        arrived_.emplace(watch, name);
        return;
    }
    if ((mask & (IN_DELETE | IN_MOVED_FROM)) != 0) return forget_file(known->second, name, news);
    check_file(known->second, name, news);
}

bool AppDirectories::is_dead(int watch, const std::string& name) const {
    return std::ranges::find(dead_, std::pair(watch, name)) != dead_.end();
}

void AppDirectories::remove_dead() {
    if (dead_.empty() || !is_ours_()) return;
    for (const auto& [watch, name] : std::exchange(dead_, {}))
        if (const auto directory = directories_.find(watch); directory != directories_.end())
            ::unlinkat(directory->second.fd.get(), name.c_str(), 0);
}

std::map<int, AppDirectories::Nameless>::const_iterator AppDirectories::find_nameless(const FileId& id) const {
    return std::ranges::find_if(nameless_, [&id](const auto& entry) { return entry.second.id == id; });
}

bool AppDirectories::follow(const FileId& id, uid_t uid, int fd) {
    if (find_nameless(id) != nameless_.end()) return true;
    const auto is_of_user = [uid](const auto& entry) { return entry.second.uid == uid; };
    if (std::ranges::count_if(nameless_, is_of_user) >= kMaxNameless) return false;
    const auto has_inode = [&id](const auto& file) {
        return file.second.device == id.device && file.second.inode == id.inode;
    };
    for (const auto& [watch, directory] : directories_)
        if (directory.uid == uid && std::ranges::any_of(directory.files, has_inode)) return false;
    const std::string path = fmt::format("/proc/self/fd/{}", fd);
    const int watch = ::inotify_add_watch(inotify_.get(), path.c_str(), IN_CLOSE_WRITE);
    // One that is watched already has been renamed since, and lost that name, too.
    return watch >= 0 && nameless_.try_emplace(watch, Nameless{id, uid}).second;
}

void AppDirectories::unfollow(const FileId& id) {
    const auto file = find_nameless(id);
    if (file == nameless_.end()) return;
    ::inotify_rm_watch(inotify_.get(), file->first);
    nameless_.erase(file);
}

std::vector<std::pair<FileId, uid_t>> AppDirectories::named() const {
    std::vector<std::pair<FileId, uid_t>> named;
    for (const auto& [watch, directory] : directories_) {
        struct stat status {};
        const bool is_there = ::fstatat(parent_.get(), directory.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                              status.st_ino == directory.inode;
        if (!is_there) continue;
        for (const auto& [name, id] : directory.files) {
            if (::fstatat(directory.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                id_of(status, name) == id)
                named.emplace_back(id, directory.uid);
        }
    }
    return named;
}

std::optional<FileId> AppDirectories::find(uid_t uid, std::uint64_t number) const {
    const std::string name = fmt::format("{:016x}{}", number, wire::kControlFile);
    for (const auto& [watch, directory] : directories_)
        if (const auto file = directory.files.find(name); directory.uid == uid && file != directory.files.end())
            return file->second;
    for (const auto& [watch, file] : nameless_)
        if (file.uid == uid && file.id.number == number) return file.id;
    return std::nullopt;
}

std::set<AppDirectories::Unfinished> AppDirectories::unfinished() const {
    std::set<Unfinished> unfinished;
    for (const auto& [watch, directory] : directories_) {
        std::size_t new_names = 0;
        std::size_t count = 0;
        for (const std::string& name : names_in(directory.fd.get(), kMaxNames).value_or(Names())) {
            if (!is_control_file_name(name, wire::kNewControlFile)) continue;
            if (++new_names > kMaxNewNames || count >= kMaxUnfinished) break;
            const auto file = find_unfinished(directory.fd.get(), name, directory.uid);
            if (!file) continue;
            unfinished.insert(*file);
            ++count;
        }
    }
    return unfinished;
}

}  // namespace leat::sessiond
