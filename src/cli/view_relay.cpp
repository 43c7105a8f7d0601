// `leat view net://...`: sessions of a relay, while they are recorded.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "base/printable_text.hpp"
#include "cli/live_printer.hpp"
#include "cli/misuse.hpp"
#include "cli/session_trace.hpp"
#include "cli/stop_signals.hpp"
#include "cli/tell.hpp"
#include "cli/view_arguments.hpp"
#include "net/relay_url.hpp"
#include "viewer/read/relay_session.hpp"
#include "viewer/sink/text_buffer.hpp"

namespace leat::cli {
namespace {

using namespace std::chrono_literals;
using viewer::LiveConnection;
using viewer::Progress;

using Clock = std::chrono::steady_clock;

constexpr auto kReconnectPeriod = 500ms;
// From one look at what sessions there are to the next.
constexpr auto kLookPeriod = 1s;

Result<LiveConnection> connect(const net::RelayUrl& url, int stop_fd) {
    auto socket = net::WaitingSocket::connect(url.host, url.port, stop_fd);
    if (!socket) return tl::unexpected(std::move(socket).error());
    return LiveConnection::open(*std::move(socket));
}

std::string as_json(const net::RelayUrl& url, const std::vector<wire::ListedSession>& sessions) {
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
    return list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_table(const net::RelayUrl& url, const std::vector<wire::ListedSession>& sessions) {
    if (sessions.empty()) return fmt::format("no session at {}\n", url.address());
    std::string table;
    for (const wire::ListedSession& session : sessions)
        table += fmt::format(
            "{}  ({}, {} stream{}, {} viewer{})\n", printable(url.url_of(session.hostname, session.session_name)),
            session.live_timer_us == 0 ? std::string("not live") : fmt::format("timer {} us", session.live_timer_us),
            session.streams, session.streams == 1 ? "" : "s", session.clients, session.clients == 1 ? "" : "s");
    return table;
}

Result<Viewed> list(const ViewArguments& arguments, const net::RelayUrl& url, LiveConnection& connection) {
    const auto sessions = LEAT_TRY(connection.list_sessions());
    viewer::TextBuffer output(STDOUT_FILENO);
    output.append(arguments.format == "json" ? as_json(url, sessions) : as_table(url, sessions));
    LEAT_TRY(output.flush());
    return output.is_closed() ? Viewed::kUntilNobodyRead : Viewed::kToTheEnd;
}

// Follows a session, over as many connections as that takes.
class Following {
  public:
    Following(const ViewArguments& arguments, const net::RelayUrl& url, const viewer::TextOptions& options)
        : arguments_(arguments),
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
            if (!arguments_.reconnects && !followed) return followed;
            // Asked first: what a session has sent that is no more, the relay shows by then.
            const bool goes_on = followed && session_goes_on();
            is_next_part_ = followed && has_next_part();
            if (is_next_part_) continue;
            if (goes_on) {
                is_next_part_ = true;
                if (!has_attached_) tell_of_waiting();
                wait();
                if (is_over()) return {};
                continue;
            }
            if (!arguments_.reconnects) return printer_.outcome(cut_short_);
            if (!followed) tell_of_another_try(followed.error().message);
            has_attached_ = false;
            wait();
            if (is_over()) return {};
        }
    }

    [[nodiscard]] bool is_over() const { return stop_.has_come() || printer_.is_closed(); }

    void wait() const { net::WaitingSocket(UniqueFd(), stop_.fd()).wait(kReconnectPeriod); }

    // Between two programs of a session, a relay has nothing of it that is not finished.
    [[nodiscard]] bool session_goes_on() const {
        if (!arguments_.daemons_url) return false;
        const auto trace = find_session_trace(url_.session);
        return trace && *trace == arguments_.daemons_url;
    }

    void tell_of_waiting() {
        if (!std::exchange(has_told_of_waiting_, true))
            tell("leat: session \"{}\" has sent nothing to {} so far: waiting for it", url_.session, url_.address());
    }

    // Once for the same reason, until there was something to follow.
    void tell_of_another_try(const std::string& why) {
        if (why == std::exchange(told_why_, why) && !has_attached_) return;
        print_warning(why + "; trying again");
    }

    Result<void> follow_once() {
        auto connected = connect(url_, stop_.fd());
        if (!connected && arguments_.daemons_url && !arguments_.live_port)
            connected.error().message += "; if viewers come to another port of it, name that: --live-port";
        LiveConnection connection = LEAT_TRY(std::move(connected));
        const auto sessions = LEAT_TRY(connection.list_sessions());
        LEAT_TRY(connection.create_viewer_session());
        viewer::RelaySession session(connection, printer_.merge(), shown_, print_warning);
        const bool is_next_part = std::exchange(is_next_part_, false);
        if (!is_next_part) attached_.clear();
        // All that a next part has is later than what `--from=now` leaves out.
        const std::size_t count = LEAT_TRY(attach(session, sessions, is_next_part ? wire::Seek::kBeginning : seek_));
        if (count == 0 && (is_next_part || arguments_.daemons_url)) return {};  // it has gone again, or is to come
        if (count == 0)
            return not_found("no session \"{}\" of host {}: leat view net://{} lists what there is", url_.session,
                             url_.target_host, url_.address());
        has_attached_ = true;
        auto followed = follow(connection, session);
        cut_short_ += session.cut_short();
        if (!followed && !is_over()) return followed;
        if (followed) return session.detach();
        return {};
    }

    [[nodiscard]] bool is_new_part(const wire::ListedSession& listed) const {
        return listed.hostname == url_.target_host && listed.session_name == url_.session &&
               !attached_.contains(listed.id);
    }

    // Attaches to all sessions of that name that are new here, and returns how many: each user, or each process, may
    // have one, and a producer that connected again has made a second part of its own.
    Result<std::size_t> attach(viewer::RelaySession& session, const std::vector<wire::ListedSession>& sessions,
                               wire::Seek seek) {
        // A relay that was started again gives the same numbers to others.
        std::erase_if(attached_, [&](std::uint64_t id) {
            return std::ranges::find(sessions, id, &wire::ListedSession::id) == sessions.end();
        });
        std::size_t count = 0;
        for (const wire::ListedSession& listed : sessions) {
            if (!is_new_part(listed)) continue;
            attached_.insert(listed.id);
            const std::optional<Error> refusal = LEAT_TRY(session.attach(listed, seek));
            if (!refusal) ++count;
            // It may have come and gone meanwhile: others go on, or are to come.
            else if (refusal->kind == ErrorKind::kNotFound && (has_attached_ || arguments_.daemons_url))
                continue;
            else if (!has_attached_)
                return tl::unexpected(*refusal);
            else
                print_warning(refusal->message);
        }
        return count;
    }

    // When all that we follow have ended. Another one may have begun just before.
    bool has_next_part() {
        auto connection = connect(url_, stop_.fd());
        const auto sessions = connection ? connection->list_sessions() : tl::unexpected(connection.error());
        return sessions && std::ranges::any_of(*sessions, [this](const auto& listed) { return is_new_part(listed); });
    }

    // All that those have which come later is later than what `--from=now` leaves out.
    Result<void> look_for_more(LiveConnection& connection, viewer::RelaySession& session) {
        const auto sessions = LEAT_TRY(connection.list_sessions());
        LEAT_TRY(attach(session, sessions, wire::Seek::kBeginning));
        return {};
    }

    Result<void> follow(LiveConnection& connection, viewer::RelaySession& session) {
        Clock::time_point next_look = Clock::now() + kLookPeriod;
        while (!is_over()) {
            const Progress progress = LEAT_TRY(session.advance());
            LEAT_TRY(printer_.print());
            if (progress == Progress::kEnded) return {};
            const bool is_due = Clock::now() >= next_look;
            session.request_ahead(!is_due);
            if (is_due && !connection.has_requested_news()) {
                LEAT_TRY(look_for_more(connection, session));
                next_look = Clock::now() + kLookPeriod;
            }
            // Write all that came at once in one go.
            if (progress == Progress::kNothingNew || !session.has_queued()) LEAT_TRY(printer_.flush());
            if (progress == Progress::kNothingNew) LEAT_TRY(session.wait());
        }
        return {};
    }

    const ViewArguments& arguments_;
    wire::Seek seek_;
    const net::RelayUrl& url_;
    StopSignals stop_;
    LivePrinter printer_;
    viewer::ShownPackets shown_;
    bool has_attached_ = false;
    std::set<std::uint64_t> attached_{};  // on this connection, or on the one before, of which this is the next part
    bool is_next_part_ = false;
    bool has_told_of_waiting_ = false;
    std::string told_why_{};
    std::uint64_t cut_short_ = 0;
};

Result<Viewed> view(const ViewArguments& arguments, const net::RelayUrl& url, const viewer::TextOptions& options) {
    if (!url.names_session() && arguments.selection.expression)
        misuse("--filter is for events: name a session of the relay");
    LEAT_TRY(open_output(arguments));
    if (url.names_session()) return Following(arguments, url, options).run();
    LiveConnection connection = LEAT_TRY(connect(url, -1));
    return list(arguments, url, connection);
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
