#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/named_file.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "wire/app/control_format.hpp"

namespace leat::sessiond {

// Where a daemon lives: docs/formats/runtime-directory.md.
struct Places {
    wire::Lane lane;
    std::filesystem::path directory;   // its own
    std::filesystem::path app_parent;  // of the directories of users
    std::optional<uid_t> only{};       // the user whose programs it traces; none: all

    // By who we are, and LEAT_RUNTIME_DIR.
    static Result<Places> find();
};

// The directory of a daemon, which its lock makes its own. Somebody may remove it, as logind does with all that a user
// has in /dev/shm who logs out (RemoveIPC=); then nobody can reach the daemon, and another one may start there: who has
// the lock goes on.
class DaemonPlace {
  public:
    // Makes the directory, if need be. kRefused: another daemon lives there. `lock`: held by the daemon in this process
    // whose place we take; not open: there was none.
    static Result<DaemonPlace> take(Places places, UniqueFd lock);

    [[nodiscard]] const Places& where() const { return places_; }
    [[nodiscard]] std::filesystem::path path_of(const char* name) const { return places_.directory / name; }

    // Who lives there: what others have put in its stead is no daemon's. An error: that cannot be told, for want of
    // descriptors, say.
    enum class Owner : std::uint8_t { kWe, kNobody, kAnother };
    [[nodiscard]] Result<Owner> owner() const;
    [[nodiscard]] bool is_ours() const;
    // What is missing of it is made again. kRefused: another daemon is there; anything else may pass.
    Result<void> take_again();

    // For the next one in this process. From then on, the place is not ours.
    UniqueFd release() { return std::move(lock_); }
    [[nodiscard]] bool is_released() const { return !lock_.is_open(); }

  private:
    DaemonPlace(Places places, UniqueFd lock);

    Places places_;
    UniqueFd lock_;
    NamedFile app_parent_;  // that is looked at for programs
};

}  // namespace leat::sessiond
