#include "cli/steer/steering.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/printable_text.hpp"
#include "cli/command.hpp"
#include "cli/session_daemon.hpp"
#include "cli/tell.hpp"
#include "cli/write_signals.hpp"

namespace leat::cli {
namespace {

Json object_for_scripts(const Outcome<void>& outcome, const Json& result, const std::vector<std::string>& warnings) {
    Json object = outcome ? Json{{"ok", true}} : failure_object(outcome.error().kind, outcome.error().message);
    for (const auto& [key, value] : result.items())
        if (!object.contains(key)) object[key] = value;
    object["warnings"] = warnings;
    return object;
}

// An error if not all could be written that somebody wants to read.
Result<void> print_all(const std::string& text) {
    const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if ((is_written && std::fflush(stdout) == 0) || errno == EPIPE) return {};
    return io_error("cannot write");
}

}  // namespace

Failure::Failure(const Error& error) : kind(kind_name(error.kind)), message(error.message) {}

Result<ControlClient*> Steering::client() {
    if (!client_) client_ = LEAT_TRY(may_start_ ? connect_or_start_daemon() : connect_to_daemon());
    return &*client_;
}

Outcome<Json> Steering::ask(const Json& request) {
    // Do not start a daemon for what cannot be sent.
    if (const auto line = json_line(request); !line) return usage("{}", line.error().message);
    ControlClient* const client = LEAT_TRY(this->client());
    const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
    Json answer = LEAT_TRY(client->ask(request, [is_terminal](const std::string& progress) {
        if (is_terminal) tell("leat: {}", printable(progress));
    }));
    if (const auto warnings = answer.find("warnings"); warnings != answer.end())
        for (const Json& warning : *warnings) warn(warning.get<std::string>());
    if (answer.at("ok").get<bool>()) return answer;
    return tl::unexpected(Failure(answer.at("kind").get<std::string>(), answer.at("error").get<std::string>()));
}

void Steering::warn(const std::string& text) {
    if (std::ranges::find(warnings_, text) != warnings_.end()) return;
    warnings_.push_back(text);
    print_warning(text);
}

void Steering::say(std::string_view line) { text_.append(line).append("\n"); }

int Steering::finish(const Outcome<void>& outcome, bool is_json) const {
    const Result<void> printed =
        print_all(is_json ? readable_json(object_for_scripts(outcome, result_, warnings_)) + '\n' : text_);
    if (!outcome) {
        tell("leat: {}", printable(outcome.error().message));
        return outcome.error().kind == kUsage ? kExitUsage : kExitFailed;
    }
    if (printed) return kExitOk;
    tell("leat: {}", printed.error().message);
    return kExitFailed;
}

int run_verb(std::string_view format, const std::function<Outcome<void>(Steering&)>& verb) {
    let_writes_fail();
    Steering steering;
    const auto run = [&]() -> Outcome<void> {
        try {
            return verb(steering);
        } catch (const nlohmann::json::exception&) {
            return tl::unexpected(Failure("io", "the session daemon's answer has an unexpected form"));
        }
    };
    return steering.finish(run(), format == "json");
}

int report_usage(const std::string& message, const std::string& command, bool is_json) {
    return Steering().finish(usage("{} (see leat {}{}--help)", message, command, command.empty() ? "" : " "), is_json);
}

std::string quoted(const std::string& name) { return fmt::format("\"{}\"", printable(name)); }

std::string quoted_member(const Json& answer, const char* key) { return quoted(answer.at(key).get<std::string>()); }

Json request_of(const char* verb, const std::optional<std::string>& session) {
    Json request{{"verb", verb}};
    if (session) request["session"] = *session;
    return request;
}

bool is_done_already(const Json& answer) {
    const auto already = answer.find("already");
    return already != answer.end() && already->get<bool>();
}

}  // namespace leat::cli
