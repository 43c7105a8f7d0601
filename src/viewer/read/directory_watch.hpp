#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "base/unique_fd.hpp"

namespace leat::viewer {

// Tells when something happens to directories and files. It gives hints only: the caller must look for itself. Network
// file systems send no notifications, so a wait also ends by itself now and then.
class DirectoryWatch {
  public:
    // A wait ends by itself after it, and who does not wait looks as often.
    static constexpr std::chrono::milliseconds kPeriod{500};

    DirectoryWatch();

    // Watches for files that are created there or moved there. Does nothing if the directory is watched already, or if
    // the system has no more watches.
    void add_directory(const std::filesystem::path& path);
    // Watches for writes, and for a writer that closes the file, for example because it was killed.
    void add_file(const std::filesystem::path& path);

    // Waits until something happens, `stop_fd` becomes readable, or a signal comes. Returns whether a file may have
    // been created.
    bool wait(int stop_fd);
    // The same of what has happened until now.
    bool take_events();

  private:
    void add(const std::filesystem::path& path, std::uint32_t events);

    UniqueFd fd_;
    bool is_blind_ = false;  // something could not be watched
};

}  // namespace leat::viewer
