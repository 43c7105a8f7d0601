// What `leat recover` does: makes a trace of what programs have committed to rings that are files, and nobody has
// stored (docs/formats/ring-files.md). All that lies in those files may be anything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace leat::host {

// The files of a session whose recorder is gone. As long as this object lives, nobody else takes them for unused.
class LeftSession {
  public:
    // `directory`: that of a session, or one with the directory of a single session. Fails if somebody records it.
    static Result<LeftSession> find(const std::filesystem::path& directory);

    [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
    // As it can name a directory.
    [[nodiscard]] const std::string& name() const { return name_; }

    struct RecoveredTrace {
        std::string path;       // below the session's directory
        std::string stored_in;  // where the trace went while it was recorded; empty: to a relay
        std::uint64_t events = 0;
        std::uint64_t bytes = 0;
        std::uint64_t discarded = 0;  // beyond what stored packets tell; also what cannot be read
        std::vector<std::string> warnings{};
    };
    struct Recovered {
        std::vector<RecoveredTrace> traces{};
        std::vector<std::string> errors{};  // which others there were, and what is wrong with them
    };
    // Stores it in `output`, itself new or empty. Goes on with other traces if one cannot be read; fails if nothing can
    // be written. The files stay as they are.
    [[nodiscard]] Result<Recovered> store_in(const std::filesystem::path& output) const;

  private:
    struct Left {
        std::string path;  // below the session's directory
        UniqueFd directory{};
        UniqueFd description{};  // locked, together with others who recover
    };
    LeftSession() = default;

    std::filesystem::path directory_;
    std::string name_;
    std::vector<Left> traces_;
};

}  // namespace leat::host
