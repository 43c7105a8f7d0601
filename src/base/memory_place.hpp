#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat {

// Where memory is made that others have, too, and that outlives its maker: without names (memfd), for as long as
// somebody has its descriptor; or as files of a directory, which outlive all processes. The owner of files alone may
// open them.
class MemoryPlace {
  public:
    // Without names.
    MemoryPlace() = default;
    // `directory` is open; `path` is for messages. Refuses file systems where a page that has a place on the disk may
    // need another one when it is written to: if the disk is full then, whoever writes there is killed (SIGBUS).
    static Result<MemoryPlace> of_directory(UniqueFd directory, std::filesystem::path path);

    [[nodiscard]] bool is_directory() const { return directory_.is_open(); }
    [[nodiscard]] int directory() const { return directory_.get(); }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

    // Empty memory, which grows. `name` is that of the file, and new; or for people who look at /proc/PID/fd.
    [[nodiscard]] Result<UniqueFd> make(const std::string& name) const;

    struct Part {
        std::uint64_t offset;
        std::uint64_t size;
    };
    // Memory of a fixed size: sealed, if it has no name. Of a file, these parts are there for good, whatever becomes of
    // the disk; the rest takes no room yet.
    [[nodiscard]] Result<UniqueFd> make(const std::string& name, std::uint64_t size, std::span<const Part> parts) const;

  private:
    UniqueFd directory_;
    std::filesystem::path path_;
};

}  // namespace leat
