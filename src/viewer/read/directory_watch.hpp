#pragma once

#include <cstdint>
#include <filesystem>

#include "base/unique_fd.hpp"

namespace leat::viewer {

// Tells when something happens to directories and files. What it tells are hints: look for yourself. File systems on
// networks tell nothing, so waiting ends by itself now and then.
class DirectoryWatch {
  public:
    DirectoryWatch();

    // Something is created there, or moved there. Again, or if the system has no more to give: nothing.
    void add_directory(const std::filesystem::path& path);
    // It is written, or closed by a writer, who may have been killed.
    void add_file(const std::filesystem::path& path);

    // Until something happens, `stop_fd` becomes readable, or a signal comes. Whether something may have been created.
    bool wait(int stop_fd);

  private:
    void add(const std::filesystem::path& path, std::uint32_t events);
    bool take_events();

    UniqueFd fd_;
    bool is_blind_ = false;  // there is something that it could not be told of
};

}  // namespace leat::viewer
