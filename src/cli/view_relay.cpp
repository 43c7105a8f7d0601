// `leat view net://...`: sessions of a relay, while they are recorded.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/printable_text.hpp"
#include "cli/live_printer.hpp"
#include "cli/misuse.hpp"
#include "cli/stop_signals.hpp"
#include "cli/tell.hpp"
#include "cli/view_arguments.hpp"
#include "net/relay_url.hpp"
#include "viewer/read/relay_session.hpp"

namespace leat::cli {
namespace {

using namespace std::chrono_literals;
using viewer::LiveConnection;
using viewer::Progress;

constexpr auto kReconnectPeriod = 500ms;

Result<LiveConnection> connect(const net::RelayUrl& url, int stop_fd) {
    auto socket = net::WaitingSocket::connect(url.host, url.port, stop_fd);
    if (!socket) return tl::unexpected(std::move(socket).error());
    return LiveConnection::open(*std::move(socket));
}

void print_json(const net::RelayUrl& url, const std::vector<wire::ListedSession>& sessions) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const wire::ListedSession& session : sessions)
        list.push_back({{"id", session.id},
                        {"host", session.hostname},
                        {"session", session.session_name},
                        {"live_timer_us", session.live_timer_us},
                        {"clients", session.clients},
                        {"streams", session.streams},
                        {"url", url.url_of(session.hostname, session.session_name)}});
    // Names come from far away: replace what is not UTF-8.
    fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_table(const net::RelayUrl& url, const std::vector<wire::ListedSession>& sessions) {
    if (sessions.empty()) return fmt::print("no session at {}\n", url.address());
    for (const wire::ListedSession& session : sessions)
        fmt::print(
            "{}  ({}, {} stream{}, {} viewer{})\n", printable(url.url_of(session.hostname, session.session_name)),
            session.live_timer_us == 0 ? std::string("not live") : fmt::format("timer {} us", session.live_timer_us),
            session.streams, session.streams == 1 ? "" : "s", session.clients, session.clients == 1 ? "" : "s");
}

Result<void> list(const ViewArguments& arguments, const net::RelayUrl& url, LiveConnection& connection) {
    const auto sessions = LEAT_TRY(connection.list_sessions());
    arguments.format == "json" ? print_json(url, sessions) : print_table(url, sessions);
    return {};
}

// Follows a session, over as many connections as that takes.
class Following {
  public:
    Following(const ViewArguments& arguments, const net::RelayUrl& url, const viewer::TextOptions& options)
        : reconnects_(arguments.reconnects),
          seek_(arguments.from == "now" ? wire::Seek::kLast : wire::Seek::kBeginning),
          url_(url),
          printer_(options, arguments.selection.filter()) {}

    Result<Viewed> run() {
        LEAT_TRY(follow_to_the_end());
        return printer_.is_closed() ? Viewed::kUntilNobodyRead : Viewed::kToTheEnd;
    }

  private:
    Result<void> follow_to_the_end() {
        while (true) {
            auto followed = follow_once();
            LEAT_TRY(printer_.print());
            LEAT_TRY(printer_.flush());
            if (is_over()) return {};
            if (!reconnects_) return followed ? printer_.outcome(cut_short_) : followed;
            if (!followed && has_attached_) print_warning(followed.error().message + "; trying again");
            has_attached_ = false;
            wait();
            if (is_over()) return {};
        }
    }

    [[nodiscard]] bool is_over() const { return stop_.has_come() || printer_.is_closed(); }

    void wait() const { net::WaitingSocket(UniqueFd(), stop_.fd()).wait(kReconnectPeriod); }

    Result<void> follow_once() {
        LiveConnection connection = LEAT_TRY(connect(url_, stop_.fd()));
        const auto sessions = LEAT_TRY(connection.list_sessions());
        LEAT_TRY(connection.create_viewer_session());
        viewer::RelaySession session(connection, printer_.merge(), shown_, print_warning);
        LEAT_TRY(attach(session, sessions));
        auto followed = follow(session);
        cut_short_ += session.cut_short();
        if (!followed && !is_over()) return followed;
        if (followed) return session.detach();
        return {};
    }

    // Attaches to all sessions of that name: a producer that connected again has made a second part of its session.
    Result<void> attach(viewer::RelaySession& session, const std::vector<wire::ListedSession>& sessions) {
        std::size_t count = 0;
        for (const wire::ListedSession& listed : sessions) {
            if (listed.hostname != url_.target_host || listed.session_name != url_.session) continue;
            LEAT_TRY(session.attach(listed, seek_));
            ++count;
        }
        if (count == 0)
            return not_found("no session \"{}\" of host {}: leat view net://{} lists what there is", url_.session,
                             url_.target_host, url_.address());
        has_attached_ = true;
        return {};
    }

    Result<void> follow(viewer::RelaySession& session) {
        while (!is_over()) {
            const Progress progress = LEAT_TRY(session.advance());
            LEAT_TRY(printer_.print());
            if (progress == Progress::kEnded) return {};
            // Write all that came at once in one go.
            if (progress == Progress::kNothingNew || !session.has_queued()) LEAT_TRY(printer_.flush());
            if (progress == Progress::kNothingNew) LEAT_TRY(session.wait());
        }
        return {};
    }

    bool reconnects_;
    wire::Seek seek_;
    const net::RelayUrl& url_;
    StopSignals stop_;
    LivePrinter printer_;
    viewer::ShownPackets shown_;
    bool has_attached_ = false;
    std::uint64_t cut_short_ = 0;
};

Result<Viewed> view(const ViewArguments& arguments, const net::RelayUrl& url, const viewer::TextOptions& options) {
    if (url.names_session()) return Following(arguments, url, options).run();
    if (arguments.selection.expression) return refused("--filter is for events: name a session of the relay");
    LiveConnection connection = LEAT_TRY(connect(url, -1));
    LEAT_TRY(list(arguments, url, connection));
    return Viewed::kToTheEnd;
}

}  // namespace

Result<Viewed> view_relay(const ViewArguments& arguments, const viewer::TextOptions& options) {
    if (arguments.traces.size() != 1) misuse("one net:// URL at a time");
    const net::RelayUrl url = meaning_of(net::parse_relay_url(arguments.traces.front()));
    auto viewed = view(arguments, url, options);
    if (!viewed) return wrap(fmt::format("relay {}", url.address()), std::move(viewed).error());
    return viewed;
}

}  // namespace leat::cli
