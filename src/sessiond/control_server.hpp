#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/listener.hpp"
#include "base/named_file.hpp"
#include "base/result.hpp"
#include "base/stranger_socket.hpp"
#include "base/unique_fd.hpp"
#include "sessiond/request.hpp"

namespace leat::sessiond {

// Takes requests of clients and sends them the answers: docs/formats/control-protocol.md. Never blocks; one thread.
class ControlServer {
  public:
    using Clock = std::chrono::steady_clock;
    // Does what a request says; any JSON. Replies once: at once, or later, in the thread of the server.
    using Handler = std::function<void(const Client& client, const nlohmann::json& request, Reply reply)>;

    struct Parameters {
        std::filesystem::path path;    // of the socket; whatever has that name is removed
        std::optional<gid_t> group{};  // may connect, too
        // After this time, and each time after it, who waits for an answer is told that there will be one.
        Clock::duration progress_period = std::chrono::seconds(5);
        // Who asks for nothing for so long, and waits for nothing, has to go.
        Clock::duration client_patience = std::chrono::seconds(30);
        // Connected at the same time.
        std::size_t most_clients = 64;
        // Who connects asks for something within this time, or has to go if others want to come.
        Clock::duration speaks_within = std::chrono::seconds(1);
    };
    static Result<std::unique_ptr<ControlServer>> listen(const Parameters& parameters, Handler handler);
    // With a socket that listens at that path, of a daemon whose place we take.
    static std::unique_ptr<ControlServer> take_over(UniqueFd socket, const Parameters& parameters, Handler handler);
    ~ControlServer();
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

    // Whether clients find us: somebody may remove the socket, or put another one there.
    [[nodiscard]] bool can_be_found() const { return name_.is_there(); }
    // In place of what is there; clients that have connected stay.
    Result<void> listen_again();

    // For the daemon's loop: when it is due, what to poll for, and what to do then. In this order, or the moment may be
    // missed from which there is room for newcomers.
    [[nodiscard]] Clock::time_point deadline() const;
    [[nodiscard]] std::vector<pollfd> wanted() const;
    void run();
    // Nobody new is accepted, until this is taken back.
    void close_door(bool is_closed) { is_door_closed_ = is_closed; }
    // Whether somebody has asked and has not got the whole answer yet, or has just come to ask. That may end by itself.
    [[nodiscard]] bool owes_answers() const;
    // For who takes our place: clients that come wait there. Those that are here have to come again.
    UniqueFd release();

  private:
    struct Connection {
        StrangerSocket socket;
        Client client;
        Clock::time_point silent_since;
        std::string input{};
        std::string output{};
        bool is_busy = false;  // a request is being done
        std::string verb{};    // of the request
        Clock::time_point busy_since{};
        Clock::time_point progress_due{};
        bool is_over = false;
    };
    using Connections = std::list<std::shared_ptr<Connection>>;  // shared with answers that come later

    ControlServer(UniqueFd socket, const Parameters& parameters, Handler handler)
        : socket_(std::move(socket), "clients"),
          name_(parameters.path),
          group_(parameters.group),
          progress_period_(parameters.progress_period),
          client_patience_(parameters.client_patience),
          most_clients_(parameters.most_clients),
          speaks_within_(parameters.speaks_within),
          handler_(std::move(handler)) {}
    void accept_all();
    [[nodiscard]] bool is_welcome(const ucred& peer) const;
    void receive(const std::shared_ptr<Connection>& connection);
    [[nodiscard]] static bool may_go_on(const Connection& connection);
    [[nodiscard]] bool is_about_to_ask(const Connection& connection) const;
    [[nodiscard]] bool may_have_to_go(const Connection& connection) const;
    void do_requests(const std::shared_ptr<Connection>& connection);
    void begin_request(Connection& connection, const std::optional<nlohmann::json>& request) const;
    void tell_progress(Connection& connection) const;
    static void send(Connection& connection);
    [[nodiscard]] Connections::const_iterator find_to_go() const;
    [[nodiscard]] bool has_room() const;

    Listener socket_;
    NamedFile name_;  // of the socket
    std::optional<gid_t> group_;
    Clock::duration progress_period_;
    Clock::duration client_patience_;
    std::size_t most_clients_;
    Clock::duration speaks_within_;
    Handler handler_;
    bool is_door_closed_ = false;
    Connections connections_;
};

}  // namespace leat::sessiond
