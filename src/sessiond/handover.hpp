#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace leat::sessiond {

// Whether this is the file at `path`, and whoever has this descriptor holds its lock.
[[nodiscard]] bool is_locked_file(const UniqueFd& file, const std::filesystem::path& path);

// What a process keeps of its daemon while another program is put in its place: nobody else can take the place
// meanwhile, and programs and clients that come wait for their turn.
struct Handover {
    UniqueFd lock{};
    UniqueFd active{};    // that tells programs of an active session; not open: there is none
    UniqueFd programs{};  // listens, as does the next
    UniqueFd clients{};

    // Lets the descriptors survive exec, and says which they are.
    [[nodiscard]] std::string keep_over_exec() const;
    // What keep_over_exec() said, if the descriptors are those of the daemon in this directory. If not, nothing is
    // kept, and none of them is open.
    static Handover find(std::string_view text, const std::filesystem::path& directory);
};

}  // namespace leat::sessiond
