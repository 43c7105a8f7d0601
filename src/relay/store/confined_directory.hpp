#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::relay {

// A directory that peers may name things in. Whatever they name stays below it: every step of a path is looked up
// from here, no `..`, no absolute path, no symbolic link is followed, also not one that somebody put there meanwhile.
// Any thread.
class ConfinedDirectory {
  public:
    // The output directory itself: made if it is not there; the user chose it, so links in its path are the user's.
    // kUnsupported where openat2() is missing, which all else here needs.
    static Result<ConfinedDirectory> open_root(const std::string& path);
    // Of that one: where somebody has removed it, makes it anew, or opens what its user or root has put in its place;
    // then true. One thread.
    Result<bool> renew_root_if_removed();
    // Whether somebody has, of any one.
    [[nodiscard]] bool is_removed() const;

    // Makes what is missing of a relative path like "host/session/ust". Empty: this directory again.
    [[nodiscard]] Result<ConfinedDirectory> make(std::string_view path) const;
    // The last step of the path is made, not found: if something of that name is there, it gets a suffix ("-2", "-3").
    struct Made;
    [[nodiscard]] Result<Made> make_fresh(const std::string& path) const;
    [[nodiscard]] Result<ConfinedDirectory> open(std::string_view path) const;
    [[nodiscard]] bool exists(const std::string& path) const;

    // A new, empty file, for reading and writing. kRefused if there is something of that name.
    [[nodiscard]] Result<UniqueFd> create_file(const std::string& name) const;
    // `flags`: O_RDONLY or O_RDWR.
    [[nodiscard]] Result<UniqueFd> open_file(const std::string& name, int flags = 0) const;
    [[nodiscard]] Result<void> rename(const std::string& from, const ConfinedDirectory& to_directory,
                                      const std::string& to) const;
    // A file, or a directory with all that is in it. Links are removed, not followed.
    [[nodiscard]] Result<void> remove(const std::string& name) const;
    [[nodiscard]] Result<std::vector<std::string>> entries() const;

    [[nodiscard]] int fd() const { return fd_.get(); }

  private:
    // Where the output directory is.
    struct Root {
        std::filesystem::path path{};  // without links
        UniqueFd parent{};
    };

    explicit ConfinedDirectory(UniqueFd fd);
    ConfinedDirectory(UniqueFd fd, Root root) : ConfinedDirectory(std::move(fd)) { root_ = std::move(root); }

    UniqueFd fd_;
    bool has_name_;  // when it was opened: some file systems say of all that they have none
    Root root_;      // of that one alone
};

struct ConfinedDirectory::Made {
    ConfinedDirectory directory;
    std::string path;  // as it was made
};

// Names from peers. A name is one step of a path; a path is steps, each a good name, with single slashes between;
// those in front and behind are dropped, as peers send them.
Result<std::string> parse_name(const std::string& name);
Result<std::string> parse_path(const std::string& path);

// "a/b/c" is "a/b" and "c"; "c" alone is "" and "c".
std::pair<std::string, std::string> split_last_step(const std::string& path);

}  // namespace leat::relay
