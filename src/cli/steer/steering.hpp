// One run of a verb that steers the session daemon: what it asks, and what it prints.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cli/control_client.hpp"
#include "cli/json_text.hpp"

namespace leat::cli {

// The kind of what cannot be understood.
inline constexpr char kUsage[] = "usage";

// Why a verb failed. `kind` is one of the control protocol's.
struct Failure {
    Failure(std::string kind_name, std::string text) : kind(std::move(kind_name)), message(std::move(text)) {}
    Failure(const Error& error);  // NOLINT(google-explicit-constructor): LEAT_TRY converts

    std::string kind;
    std::string message;
};

template <class T>
using Outcome = tl::expected<T, Failure>;

template <class... Args>
tl::unexpected<Failure> usage(fmt::format_string<Args...> format, Args&&... args) {
    return tl::unexpected(Failure("usage", fmt::format(format, std::forward<Args>(args)...)));
}

class Steering {
  public:
    // The first request starts a daemon if none runs.
    void allow_start() { may_start_ = true; }

    // Connects if need be, sends the request, and returns an answer that is ok.
    Outcome<Json> ask(const Json& request);

    // On standard error, at once, and each text only once.
    void warn(const std::string& text);
    // A line for people. All lines are printed at the end, also if the verb fails in the end.
    void say(std::string_view line);
    // The members of the object for scripts.
    Json& result() { return result_; }

    // Prints, and returns the exit status.
    [[nodiscard]] int finish(const Outcome<void>& outcome, bool is_json) const;

  private:
    Result<ControlClient*> client();

    bool may_start_ = false;
    std::optional<ControlClient> client_;
    std::vector<std::string> warnings_;
    std::string text_;
    Json result_ = Json::object();
};

// Runs a verb and returns the exit status. `format` is "text" or "json".
int run_verb(std::string_view format, const std::function<Outcome<void>(Steering&)>& verb);

// Prints that the command line of this command of `leat`, or of `leat` itself, is wrong, and returns the exit status.
int report_usage(const std::string& message, const std::string& command, bool is_json);

// `"NAME"`, fit for a terminal.
std::string quoted(const std::string& name);
// The same for a member of an answer. Throws if there is no such member, or if it is no string: run_verb() catches.
std::string quoted_member(const Json& answer, const char* key);

// A request; without a session, the current one is meant.
Json request_of(const char* verb, const std::optional<std::string>& session);

bool is_done_already(const Json& answer);

}  // namespace leat::cli
