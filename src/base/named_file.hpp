#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace leat {

// The file that has this name, whatever it is: a file, a socket. Somebody may remove it and give the name to another.
class NamedFile {
  public:
    // None: it is not there.
    NamedFile() = default;
    // What is there now.
    explicit NamedFile(std::filesystem::path path);

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    // It still has the name.
    [[nodiscard]] bool is_there() const;
    // Unless another one has the name by now. Who is allowed to change the directory at the same moment may win.
    void remove() const;

  private:
    // File systems give the inodes of files that are gone to new ones: the time of birth tells them apart, where it is
    // known.
    struct Identity {
        std::uint64_t device;
        std::uint64_t inode;
        std::int64_t born_s;
        std::uint32_t born_ns;

        bool operator==(const Identity&) const = default;
    };
    [[nodiscard]] std::optional<Identity> identity() const;

    std::filesystem::path path_{};
    std::optional<Identity> known_{};
};

}  // namespace leat
