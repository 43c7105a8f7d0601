// What must survive the daemon is in memory that a small process of its own holds: docs/formats/runtime-directory.md,
// "The keeper".
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/named_file.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "wire/app/runtime_layout.hpp"

namespace leat::sessiond {

// The daemon's end. The keeper holds descriptors by name; it reads nothing of what they lead to. It ends when it is
// told to, when there is no daemon and nothing to keep, and when somebody removes its socket, as with the directory.
//
//     daemon                      keeper
//       put "4/0"        ------->   4/0
//       put "state"      ------->   4/0, state
//       put "active"     ------->   4/0, active, state
//       (killed)                    waits for another daemon, as long as it takes
//                                   lets go of "active" after LEAT_RESTART_PATIENCE
//       all that is kept <-------   4/0, state
//
// A message that was sent reaches the keeper, also if the daemon is killed right afterwards; messages are taken in
// order.
class Keeper {
  public:
    using Kept = std::map<std::string, UniqueFd>;
    // The lock by which programs that start wait for an answer. Most daemons are started again at once; if not, the
    // programs start without.
    static constexpr const char* kActive = wire::kActiveName;
    // The one that lives in this directory, and what it holds. Nothing: there is none, or it has just ended. An error:
    // it lives and cannot be taken over; it keeps what it has for another daemon. Both functions are for who holds the
    // daemon's lock.
    static Result<std::optional<Keeper>> find(const std::filesystem::path& directory, Kept& kept);
    // Whether one lives there, perhaps with the sessions of a daemon that was killed. It stays as it is.
    static bool lives_in(const std::filesystem::path& directory);
    // Starts one there, where find() has found none. Only while there is one thread: it forks.
    static Result<Keeper> start(const std::filesystem::path& directory);

    // The keeper gets the descriptor, too, in place of that of the same name. After a failure, nothing more is kept: it
    // is told once, in the log.
    void put(const std::string& name, int fd);
    // All whose names begin so.
    void drop(const std::string& prefix);
    // Nothing need be kept any more.
    void end();
    // What whoever starts the daemon is told then. The keeper goes on.
    [[nodiscard]] tl::unexpected<Error> has_no_room(std::string_view why) const;
    // Whether it lives, and the next daemon will find it.
    [[nodiscard]] bool is_there() const;

  private:
    enum class Operation : std::uint32_t { kPut, kDrop, kTakeAll, kEnd };
    friend class KeeperProcess;

    Keeper(UniqueFd socket, std::filesystem::path path);
    // Nothing: it hung up, so it has ended.
    Result<std::optional<Kept>> take_all();
    bool send(Operation operation, const std::string& name, int fd = -1);

    UniqueFd socket_;  // closed: lost
    NamedFile name_;   // of its socket: another daemon's keeper may have it by now
};

}  // namespace leat::sessiond
