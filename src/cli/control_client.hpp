#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "cli/json_text.hpp"

namespace leat::cli {

// A connection to a session daemon: docs/formats/control-protocol.md.
class ControlClient {
  public:
    static constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(30);
    static constexpr std::size_t kMaxRequest = std::size_t{1} << 20;
    static constexpr std::size_t kMaxAnswer = std::size_t{64} << 20;

    using TakeProgress = std::function<void(const std::string&)>;

    // Connects to the first of these sockets where somebody listens; passes over those that are closed to this user,
    // but not over the last one. Refuses a daemon that is neither root's nor this user's. kNotFound: nobody listens. No
    // wait takes longer than `patience`.
    static Result<ControlClient> connect(const std::vector<std::filesystem::path>& sockets,
                                         std::chrono::milliseconds patience = kPatience);

    // Sends a request and waits for its answer: an object with the member `ok`, true or false. Call it again only if it
    // did not fail.
    Result<Json> ask(Json request, const TakeProgress& take_progress);

  private:
    ControlClient(UniqueFd socket, std::chrono::milliseconds patience)
        : socket_(std::move(socket)), patience_(patience) {}

    Result<void> send(std::string_view bytes) const;
    // The next line, without its end.
    Result<std::string> receive_line();

    UniqueFd socket_;
    std::chrono::milliseconds patience_;
    std::string input_;  // received, not yet taken
};

}  // namespace leat::cli
