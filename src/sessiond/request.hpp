// What a client asks for: docs/formats/control-protocol.md.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace leat::sessiond {

// The members of one JSON object, which must be known and of the right type. The first thing that is wrong is kept;
// take everything, then ask for it. Whoever asked for what is wrong gets nothing, or a default.
class Members {
  public:
    // `what`, for messages: "the request", "channel 2 of the file".
    Members(const nlohmann::json& object, std::string what);

    std::optional<std::string> text(const char* name);
    // Not there: empty, and that is wrong.
    std::string needed_text(const char* name);
    std::optional<std::int64_t> number(const char* name, std::int64_t least, std::int64_t most);
    std::optional<bool> truth(const char* name);
    std::vector<std::string> texts(const char* name);
    // Null if it is not there.
    const nlohmann::json* any(const char* name);
    // An array of objects; not there: none.
    std::vector<nlohmann::json> objects(const char* name);

    [[nodiscard]] const nlohmann::json& object() const { return object_; }

    // What was wrong; members that nobody took are wrong, too.
    Result<void> check() const;
    template <class... Arguments>
    void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
        if (error_.empty()) error_ = fmt::format(text, std::forward<Arguments>(arguments)...);
    }

  private:
    const nlohmann::json* take(const char* name);

    const nlohmann::json& object_;
    std::string what_;
    std::set<std::string, std::less<>> taken_;
    std::string error_;
};

// Who asks.
struct Client {
    uid_t uid;
    gid_t gid;
    pid_t pid;
};

// Takes the answer to one request.
using Reply = std::function<void(nlohmann::json answer)>;

// A request that cannot be understood: the client's exit status is 2.
template <class... Arguments>
tl::unexpected<Error> bad_usage(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    return corrupt(text, std::forward<Arguments>(arguments)...);
}

Error no_such_session(const std::string& name);
Error daemon_ends();

// Sessions and channels have such names.
Result<void> check_name(std::string_view name, const char* of_what);
// The same for a channel, whose files begin with its name: readers and relays pass over hidden ones.
Result<void> check_channel_name(std::string_view name);

nlohmann::json answer_ok();
nlohmann::json answer_error(const Error& error);

}  // namespace leat::sessiond
