#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::output {

// The modes of what is given to a user.
inline constexpr mode_t kOwnersDirectory = 0750;
inline constexpr mode_t kOwnersFile = 0640;

// A file that never ends in the middle of what was appended.
struct GrowingFile {
    UniqueFd fd;
    std::uint64_t size = 0;

    // Appends the parts one after the other; all of them, or none.
    Result<void> append(std::initializer_list<UntrustedBytes> parts);
    void cut(std::uint64_t new_size);
    // Of one that OwnedFiles has opened. False also if it cannot be read.
    [[nodiscard]] bool begins_with(std::string_view text) const;
};

// Makes the files of a trace, and finds those of another process. They may be given to a user, who may do in their
// directories what it likes: we keep hold of what we made, and follow no links.
class OwnedFiles {
  public:
    // `trace`: for messages. `owner`: none: the files stay our own.
    OwnedFiles(std::filesystem::path trace, std::optional<uid_t> owner) : trace_(std::move(trace)), owner_(owner) {}

    // Whatever has the name goes away: it is left from a try that failed, or its owner has put it there. kRefused: it
    // is a directory.
    [[nodiscard]] Result<GrowingFile> create(int directory, const std::string& name) const;
    // kNotFound: it is not there, or it is not ours. Any other error: it may well be.
    [[nodiscard]] Result<GrowingFile> open(int directory, const std::string& name) const;
    // Gives it to the owner, if there is one.
    [[nodiscard]] Result<void> give(int fd, mode_t mode) const;

  private:
    std::filesystem::path trace_;
    std::optional<uid_t> owner_;
};

}  // namespace leat::output
