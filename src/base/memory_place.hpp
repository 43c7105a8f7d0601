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
    // Without names, and nobody who touches it can find that there is no memory left.
    static MemoryPlace promised();
    // Without names, and promised where that is needed: see is_memory_limited().
    static const MemoryPlace& without_names();
    // `directory` is open; `path` is for messages. Refuses file systems where a page that has a place on the disk may
    // need another one when it is written to: if the disk is full then, whoever writes there is killed (SIGBUS).
    static Result<MemoryPlace> of_directory(UniqueFd directory, std::filesystem::path path);

    [[nodiscard]] bool is_directory() const { return directory_.is_open(); }
    // Whether the parts of what it makes are there for good.
    [[nodiscard]] bool is_promised() const { return is_promised_; }
    [[nodiscard]] int directory() const { return directory_.get(); }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

    // Empty memory, which grows. `name` is that of the file, and new; or for people who look at /proc/PID/fd.
    [[nodiscard]] Result<UniqueFd> make(const std::string& name) const;

    struct Part {
        std::uint64_t offset;
        std::uint64_t size;
    };
    // Memory of a fixed size: sealed, if it has no name. Of a file, and of memory that is promised, these parts are
    // there for good, whatever becomes of the disk; the rest takes no room yet.
    [[nodiscard]] Result<UniqueFd> make(const std::string& name, std::uint64_t size, std::span<const Part> parts) const;

  private:
    bool is_promised_ = false;
    UniqueFd directory_;
    std::filesystem::path path_;
};

// Whether the kernel gives out no more memory than it has (vm.overcommit_memory is 2, as for many databases). Then a
// page of shared memory that nobody has touched yet may be refused, and touching it is SIGBUS: such memory must be
// promised. So it is also taken if that cannot be found out.
bool is_memory_limited();

}  // namespace leat
