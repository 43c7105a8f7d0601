// The directories that programs leave their control files in: docs/formats/runtime-directory.md.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <compare>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::sessiond {

// The control file of a program.
struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    std::uint64_t number = 0;  // in its name: file systems give the inodes of files that are gone to new ones

    auto operator<=>(const FileId&) const = default;
};

// Finds control files as they appear, and notices when the programs end that have them. It believes nothing: users may
// put anything in their directories. Never blocks; one thread.
class AppDirectories {
  public:
    // Watches the directories of all users below `parent`; or, if `only` is given, that user's, which is made if there
    // is none. `is_ours`: whether we may look for programs, and remove what they leave; another daemon may do so by
    // now.
    static Result<std::unique_ptr<AppDirectories>> open(
        const std::filesystem::path& parent, std::optional<uid_t> only,
        std::function<bool()> is_ours = [] { return true; });

    // Readable when there may be news.
    [[nodiscard]] int fd() const { return inotify_.get(); }

    struct Found {
        FileId id;
        UniqueFd fd;  // for reading and writing; a regular file of this user
        uid_t uid;
        gid_t gid;
    };
    struct News {
        std::vector<Found> found;
        // Their names are gone, or may be. Nearly always, so are their programs: see follow().
        std::vector<FileId> gone;
        bool is_of_all = false;      // each directory was looked at, and not only what is new there
        bool is_incomplete = false;  // but there may be programs that could not be looked at
    };
    // What has happened since the last call.
    News look();
    // Looks whether this user has a directory by now. There may be more than are watched.
    News look_at(uid_t uid);
    // Looks at each file again, whatever the kernel has told: what it could not tell, this finds.
    News sweep();

    // A file of this user that was found before, if it has its name still.
    [[nodiscard]] std::optional<Found> open_again(const FileId& id, uid_t uid) const;

    // Removes the files of `gone` of all news so far. Until then they are there for the next daemon, if this one is
    // killed before it has taken note of them.
    void remove_dead();

    // Tells of the file again, as gone, when the last process that has it may have ended; each sweep does as well. `fd`
    // is open. False: we watch enough of them, or it has another name here.
    bool follow(const FileId& id, uid_t uid, int fd);
    void unfollow(const FileId& id);

    // Files that have their names still, so that another daemon finds them.
    [[nodiscard]] std::vector<std::pair<FileId, uid_t>> named() const;

    // The control file of this user that is called by this number, or was, if it was found by now.
    [[nodiscard]] std::optional<FileId> find(uid_t uid, std::uint64_t number) const;

    // The files that children of fork() are about to have, which they may fill from their parents'. Of a user who has
    // very many, only some.
    struct Unfinished {
        uid_t uid;
        dev_t device;
        ino_t inode;

        auto operator<=>(const Unfinished&) const = default;
    };
    [[nodiscard]] std::set<Unfinished> unfinished() const;

  private:
    struct Directory {
        int watch;  // below 0: there was none to be had
        UniqueFd fd;
        uid_t uid;
        std::string name;
        ino_t inode;
        std::map<std::string, FileId, std::less<>> files{};
        std::set<std::string, std::less<>> refused{};  // names of what is no control file, and is there
    };
    struct Nameless {
        FileId id;
        uid_t uid;
    };

    AppDirectories(UniqueFd inotify, UniqueFd parent, std::optional<uid_t> only, std::function<bool()> is_ours)
        : inotify_(std::move(inotify)), parent_(std::move(parent)), only_(only), is_ours_(std::move(is_ours)) {}
    Result<void> begin(const std::filesystem::path& parent);
    void check_all(News& news);
    void add_all_directories(News& news);
    void add_directory(const std::string& name, News& news);
    struct Watched {
        int number;
        bool was_watched;  // before: nothing can have come unseen
    };
    Watched watch_directory(int fd, uid_t uid, ino_t inode);
    void log_want_of_watches();
    void refuse_directory(const std::string& name, uid_t uid, uid_t owner);
    // False: all directories that there may be have programs.
    bool make_room();
    void scan(Directory& directory, News& news);
    // Whether it may be the file of a program.
    bool add_file(Directory& directory, const std::string& name, News& news);
    [[nodiscard]] bool is_dead(int watch, const std::string& name) const;
    static bool refuse(Directory& directory, const std::string& name, std::string_view reason);
    void check_file(Directory& directory, const std::string& name, News& news);
    static void forget_file(Directory& directory, const std::string& name, News& news);
    void forget_directory(int watch, News& news);
    void read_news(News& news);
    void add_arrived(News& news);
    void handle(int watch, std::uint32_t mask, const std::string& name, News& news);
    [[nodiscard]] std::map<int, Nameless>::const_iterator find_nameless(const FileId& id) const;

    UniqueFd inotify_;
    UniqueFd parent_;
    std::optional<uid_t> only_;
    std::function<bool()> is_ours_;
    int parent_watch_ = -1;
    int last_unwatched_ = -1;
    std::optional<std::chrono::steady_clock::time_point> told_of_watches_{};
    bool has_looked_ = false;
    std::set<std::string, std::less<>> refused_{};   // directories that are not their user's
    std::map<int, Directory> directories_;           // by watch
    std::map<int, Nameless> nameless_;               // by watch: files that processes have, and no directory
    std::set<std::pair<int, std::string>> arrived_;  // by watch and name, in what is being read
    using Dead = std::pair<int, std::string>;        // watch and name
    std::vector<Dead> dead_;                         // files to remove
};

}  // namespace leat::sessiond
