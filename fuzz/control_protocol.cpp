// Histories of the session daemon: see tests/support/session_model.hpp. Or the bytes of a client's connection.
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "model_run.hpp"
#include "sessiond/control_server.hpp"
#include "support/session_model.hpp"

namespace leat::fuzz::control_protocol {
namespace {

// These say which directories and hosts we are to go to.
bool leads_elsewhere(const std::string& bytes) {
    for (std::size_t begin = 0; begin < bytes.size();) {
        const std::size_t end = std::min(bytes.find('\n', begin), bytes.size());
        const auto request = nlohmann::json::parse(bytes.substr(begin, end - begin), nullptr, false);
        if (request.is_object() &&
            (request.value("verb", nlohmann::json()) == "create" || request.value("verb", nlohmann::json()) == "load"))
            return true;
        begin = end + 1;
    }
    return false;
}

UniqueFd connect(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // NOLINTNEXTLINE(*-reinterpret-cast)
    LEAT_CHECK(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    return client;
}

void drain(const UniqueFd& client) {
    std::array<char, 65536> answer{};
    while (::recv(client.get(), answer.data(), answer.size(), 0) > 0) continue;
}

void run_connection(FuzzInput input) {
    const std::size_t piece = 1 + input.take<std::uint16_t>();
    const UntrustedBytes rest = input.take_rest();
    const std::string bytes(reinterpret_cast<const char*>(rest.data()), rest.size());  // NOLINT(*-reinterpret-cast)
    if (leads_elsewhere(bytes)) return;
    test::ScratchDaemon daemon;
    for (const char* const name : {"one", "two"})
        LEAT_CHECK(daemon.ask({{"verb", "create"}, {"session", name}, {"directory", daemon.outputs() / name}})["ok"]);
    auto server = sessiond::ControlServer::listen({.path = daemon.socket()}, daemon.handler());
    LEAT_CHECK(server);
    const UniqueFd client = connect(daemon.socket());
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
        (void)!::send(client.get(), bytes.data() + at, std::min(piece, bytes.size() - at), MSG_NOSIGNAL);
        (*server)->run();
        daemon.run_all();
        drain(client);
    }
    ::shutdown(client.get(), SHUT_WR);
    for (int turn = 0; turn < 3; ++turn) {
        (*server)->run();
        daemon.wait();
        drain(client);
    }
    LEAT_CHECK(!daemon.ask({{"verb", "list"}}).is_null());
}

}  // namespace

LEAT_FUZZ_TARGET(control_protocol) {
    if (size == 0) return 0;
    if (data[0] % 4 == 0)
        run_connection(FuzzInput(data + 1, size - 1));
    else
        return run_model<test::SessionModel>(data + 1, std::min<std::size_t>(size - 1, 300));
    return 0;
}

}  // namespace leat::fuzz::control_protocol
