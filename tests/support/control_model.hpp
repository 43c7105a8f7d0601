// A model of a daemon's control socket and its clients, which ask many things at once, send lines piece by piece, read
// late, stop sending or go away; what they ask for is done at once, or later. Clients, requests and server take random
// steps. The model knows what each client must be told, and reports anything else. Unit tests draw the steps from
// random numbers, a fuzz target from its input.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/local_socket.hpp"
#include "base/unique_fd.hpp"
#include "sessiond/control_server.hpp"
#include "support/model.hpp"
#include "support/patience.hpp"
#include "support/scratch_directory.hpp"

namespace leat::test {

class ControlModel {
  public:
    explicit ControlModel(Choose choose) : choose_(std::move(choose)) {
        parameters_.progress_period = choose_(2) == 0 ? Clock::duration{} : std::chrono::hours(1);
        parameters_.client_patience = std::chrono::hours(1);
        if (choose_(2) == 0) parameters_.most_clients = 1 + choose_(kMostOpen / 2);
        if (choose_(2) == 0)
            parameters_.speaks_within = Clock::duration{};
        else
            parameters_.speaks_within = std::chrono::hours(1);
        auto server =
            sessiond::ControlServer::listen(parameters_, [this](const sessiond::Client&, const nlohmann::json& request,
                                                                sessiond::Reply reply) { handle(request, reply); });
        expect(server.has_value(), "no socket");
        if (server) server_ = *std::move(server);
    }

    void step() {
        const std::uint64_t what = choose_(32);
        std::vector<Client*> open;
        for (Client& client : clients_)
            if (client.socket.is_open()) open.push_back(&client);
        if (open.empty() || (what == 0 && open.size() < kMostOpen)) return connect();
        Client& client = *open[choose_(open.size())];
        if (what < 8)
            ask(client);
        else if (what < 15)
            send(client, 1 + choose_(choose_(2) == 0 ? 8 : 65536));
        else if (what < 20)
            read(client, 1 + choose_(choose_(2) == 0 ? 64 : 65536));
        else if (what < 25)
            run_if_due();
        else if (what < 26)
            server_->run();
        else if (what < 30)
            answer_one();
        else if (what < 31)
            stop_sending(client);
        else
            leave(client);
    }

    // Whoever is still there asks once more, so that nobody is waited for, sends and reads all, and what is being done
    // ends. For a moment, a thread that closes another connection may have this one, too (StrangerSocket).
    void finish() {
        for (Client& client : clients_)
            if (client.socket.is_open()) ask(client, Kind::kAtOnce);
        (void)wait_until([this] {
            for (std::size_t turn = 0; violation_.empty() && move_on(); ++turn)
                expect(turn < kMostTurns, "the server never rests");
            return !violation_.empty() || what_is_left().empty();
        });
        expect(what_is_left().empty(), what_is_left());
    }

    [[nodiscard]] const std::string& violation() const { return violation_; }
    [[nodiscard]] std::uint64_t answers() const { return answers_; }
    [[nodiscard]] std::uint64_t tellings() const { return tellings_; }
    [[nodiscard]] std::uint64_t left_meanwhile() const { return left_meanwhile_; }
    [[nodiscard]] std::uint64_t unread() const { return unread_; }
    [[nodiscard]] std::uint64_t displaced() const { return displaced_; }

  private:
    using Clock = sessiond::ControlServer::Clock;
    static constexpr std::size_t kMostOpen = 6;
    static constexpr std::size_t kMostTurns = 100'000;
    static constexpr std::size_t kLongVerb = 150'000;
    static constexpr std::size_t kLong = 400'000;  // more than a socket takes

    enum class Kind { kAtOnce, kLater, kNoJson };
    struct Request {
        std::uint64_t number;
        Kind kind;
        std::string verb;
    };
    struct Line {
        Request request;
        std::size_t left;  // bytes to be sent
    };
    struct Client {
        UniqueFd socket;                // closed: the client has left
        std::string output{};           // to be sent
        std::deque<Line> lines{};       // of it
        std::deque<Request> sent{};     // and not begun yet
        std::deque<Request> awaited{};  // sent, and the answer has not been read
        std::string text{};             // the beginning of a line that was read
        bool is_served = false;         // a request is being done
        bool has_stopped = false;       // sends no more
        bool is_at_end = false;
    };
    struct UnderWay {
        Client* client;
        std::uint64_t number;
        sessiond::Reply reply;
    };

    void expect(bool is_so, const std::string& otherwise) {
        if (!is_so && violation_.empty()) violation_ = otherwise;
    }

    // Returns whether anything was to be done.
    bool move_on() {
        bool has_moved = run_if_due();
        has_moved = answer_one() || has_moved;
        for (Client& client : clients_) {
            if (!client.socket.is_open()) continue;
            has_moved = send(client, 65536) || has_moved;
            has_moved = read(client, 65536) || has_moved;
        }
        return has_moved;
    }

    // Where nothing more is to be done; empty: nothing.
    [[nodiscard]] std::string what_is_left() const {
        std::size_t open = 0;
        for (const Client& client : clients_) {
            if (!client.socket.is_open()) continue;
            if (!client.sent.empty() || !client.awaited.empty()) return "a request is not answered, or never done";
            if (!client.text.empty()) return "the last line has no end";
            if (client.has_stopped && !client.is_at_end) return "a connection is not closed when its client is done";
            open += client.is_at_end ? 0 : 1;
        }
        return server_->wanted().size() == 1 + open ? "" : "the server keeps connections that are over";
    }

    void connect() {
        auto socket = connect_at(parameters_.path, SOCK_STREAM | SOCK_NONBLOCK);
        expect(socket.has_value(), "nobody listens");
        if (socket) clients_.push_back({.socket = *std::move(socket)});
    }

    void ask(Client& client) {
        ask(client, std::array{Kind::kAtOnce, Kind::kLater, Kind::kNoJson}.at(choose_(8) == 0 ? 2 : choose_(2)));
    }
    void ask(Client& client, Kind kind) {
        if (client.has_stopped) return;
        const Request request{++last_number_, kind, verb_of(kind)};
        std::string line = "{\"verb\": \n";
        if (kind != Kind::kNoJson)
            line = nlohmann::json{{"verb", request.verb}, {"number", request.number}}.dump() + '\n';
        client.output += line;
        client.lines.push_back({request, line.size()});
    }

    // A few of the long ones, told again and again to a client that does not read, are more than a socket takes.
    std::string verb_of(Kind kind) {
        if (kind != Kind::kLater) return "now";
        return choose_(4) == 0 ? std::string(kLongVerb, 'l') : "later";
    }

    // Returns whether anything was sent.
    bool send(Client& client, std::size_t most) {
        if (client.output.empty() || client.has_stopped) return false;
        const ssize_t sent =
            ::send(client.socket.get(), client.output.data(), std::min(most, client.output.size()), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        client.output.erase(0, static_cast<std::size_t>(sent));
        std::size_t left = static_cast<std::size_t>(sent);
        while (left > 0) {
            Line& line = client.lines.front();
            const std::size_t of_line = std::min(left, line.left);
            line.left -= of_line;
            left -= of_line;
            if (line.left > 0) break;
            // The server sees by itself what is no JSON.
            if (line.request.kind != Kind::kNoJson) client.sent.push_back(line.request);
            client.awaited.push_back(line.request);
            client.lines.pop_front();
        }
        return true;
    }

    // Returns whether anything was there.
    bool read(Client& client, std::size_t most) {
        if (client.is_at_end) return false;
        std::string bytes(most, '\0');
        const ssize_t size = ::recv(client.socket.get(), bytes.data(), bytes.size(), 0);
        if (size == 0) note_end(client);
        if (size <= 0) return size == 0;
        client.text.append(bytes, 0, static_cast<std::size_t>(size));
        for (std::size_t end = 0; (end = client.text.find('\n')) != std::string::npos;) {
            take(client, std::string_view(client.text).substr(0, end));
            client.text.erase(0, end + 1);
        }
        return true;
    }

    // Of what the server sends.
    void note_end(Client& client) {
        client.is_at_end = true;
        if (client.has_stopped) return;
        // It had to make room for another one.
        ++displaced_;
        expect(clients_.size() > parameters_.most_clients, "a connection is closed though there is room");
        expect(client.awaited.empty() && !client.is_served, "who waits for an answer has to make room");
        client.has_stopped = true;
        client.output.clear();
        client.lines.clear();
    }

    void take(Client& client, std::string_view line) {
        const nlohmann::json told = nlohmann::json::parse(line, nullptr, false);
        expect(told.is_object(), "a line is no JSON object");
        expect(!client.awaited.empty(), "something is told to a client that has asked for nothing");
        if (!violation_.empty()) return;
        const Request request = client.awaited.front();
        if (told.contains("progress")) {
            ++tellings_;
            expect(parameters_.progress_period == Clock::duration{}, "progress is told before it is due");
            expect(request.kind == Kind::kLater &&
                       told.value("progress", "").starts_with(request.verb + ": under way for "),
                   "progress is told of another request");
            return;
        }
        ++answers_;
        client.awaited.pop_front();
        if (request.kind == Kind::kNoJson)
            expect(told.value("ok", true) == false, "what is no JSON is no error");
        else
            expect(told.value("number", std::uint64_t{0}) == request.number, "the answer is to another request");
    }

    // What the daemon does for a request.
    void handle(const nlohmann::json& request, const sessiond::Reply& reply) {
        const auto number = request.value("number", std::uint64_t{0});
        const auto asker = std::ranges::find_if(clients_, [number](const Client& client) {
            return !client.sent.empty() && client.sent.front().number == number;
        });
        expect(asker != clients_.end(), "a request is done twice, or not in its turn, or was not sent");
        if (!violation_.empty()) return;
        expect(!asker->is_served, "two requests of a client are done at once");
        const Request begun = asker->sent.front();
        asker->sent.pop_front();
        expect(request.value("verb", "") == begun.verb, "the request is another one");
        // What one does may be what another waits for.
        if (choose_(8) == 0) answer_one();
        asker->is_served = true;
        UnderWay under_way{&*asker, number, reply};
        if (begun.kind == Kind::kLater)
            under_way_.push_back(under_way);
        else
            answer(under_way);
    }

    // Returns whether any was under way.
    bool answer_one() {
        if (under_way_.empty()) return false;
        const auto which = std::next(under_way_.begin(), static_cast<std::ptrdiff_t>(choose_(under_way_.size())));
        const UnderWay under_way = *which;
        under_way_.erase(which);
        answer(under_way);
        return true;
    }

    void answer(const UnderWay& under_way) {
        const bool is_long = choose_(16) == 0;
        unread_ += is_long ? 1 : 0;
        under_way.client->is_served = false;
        under_way.reply({{"ok", true}, {"number", under_way.number}, {"text", std::string(is_long ? kLong : 0, 'x')}});
    }

    // What it has not sent until now, it will never send: whole lines, and the rest of one.
    void stop_sending(Client& client) {
        if (client.has_stopped) return;
        client.has_stopped = true;
        ::shutdown(client.socket.get(), SHUT_WR);
    }

    // Whether requests that it has sent are done then, is open.
    void leave(Client& client) {
        left_meanwhile_ += client.is_served ? 1 : 0;
        client.socket = {};
    }

    // As the daemon's loop does it. Returns whether there was something to do.
    bool run_if_due() {
        const bool is_due = server_->deadline() <= Clock::now();  // moment: it is long past, or an hour away
        std::vector<pollfd> wanted = server_->wanted();
        if (::poll(wanted.data(), wanted.size(), 0) <= 0 && !is_due) return false;
        server_->run();
        return true;
    }

    Choose choose_;
    ScratchDirectory scratch_;
    sessiond::ControlServer::Parameters parameters_{.path = scratch_.path() / "control"};
    std::list<Client> clients_;  // also those that have left, which are not connected
    std::vector<UnderWay> under_way_;
    std::uint64_t last_number_ = 0;
    std::uint64_t answers_ = 0;
    std::uint64_t tellings_ = 0;
    std::uint64_t left_meanwhile_ = 0;
    std::uint64_t unread_ = 0;
    std::uint64_t displaced_ = 0;
    std::string violation_;
    std::unique_ptr<sessiond::ControlServer> server_;
};

}  // namespace leat::test
