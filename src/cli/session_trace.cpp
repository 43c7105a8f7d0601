#include "cli/session_trace.hpp"

#include "cli/session_daemon.hpp"
#include "net/relay_address.hpp"
#include "net/relay_url.hpp"
#include "session/trace_description.hpp"

namespace leat::cli {
namespace {

// A relay has the sessions of this host under the host's name.
Result<std::string> url_for_readers(const std::string& output, const std::string& session) {
    const net::RelayAddress relay = LEAT_TRY(net::parse_relay_address(output));
    const net::RelayUrl url{.host = relay.host, .port = net::kLivePort};
    return url.url_of(session::host_name(), session);
}

Result<std::optional<std::string>> trace_in(const Json& answer) {
    try {
        if (!answer.at("ok").get<bool>()) {
            if (answer.at("kind") == "not-found") return std::nullopt;
            return refused("{}", answer.at("error").get<std::string>());
        }
        const Json& session = answer.at("sessions").at(0);
        const auto output = session.at("output").get<std::string>();
        if (!net::is_relay_address(output)) return output;
        if (session.value("snapshot", false))
            return refused("the snapshots of this session are at {}: see them in its output directory", output);
        if (!session.at("live").get<bool>())
            return refused("this session goes to {}, and is not live: its trace is in the output directory there",
                           output);
        return LEAT_TRY(url_for_readers(output, session.at("name").get<std::string>()));
    } catch (const nlohmann::json::exception&) {
        return corrupt("the session daemon's answer has an unexpected form");
    }
}

}  // namespace

Result<std::optional<std::string>> find_session_trace(const std::optional<std::string>& session) {
    if (!control_sockets()) return std::nullopt;
    auto client = connect_to_daemon();
    if (!client && client.error().kind == ErrorKind::kNotFound) return std::nullopt;
    if (!client) return tl::unexpected(std::move(client).error());
    Json request{{"verb", "status"}};
    if (session) request["session"] = *session;
    return trace_in(LEAT_TRY(client->ask(request, [](const std::string& /*text*/) {})));
}

}  // namespace leat::cli
