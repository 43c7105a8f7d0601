#include "relay/metrics.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "base/printable_text.hpp"
#include "net/metrics_server.hpp"

namespace leat::relay {
namespace {

using net::metric_head;
using net::metric_line;

struct Counter {
    const char* name;
    const char* help;
    Traffic::Count Traffic::*count;
};
constexpr std::array kCounters{
    Counter{"leat_relay_received_bytes_total", "Bytes of whole packets", &Traffic::bytes},
    Counter{"leat_relay_received_packets_total", "Whole packets", &Traffic::packets},
    Counter{"leat_relay_received_indexes_total", "Index entries", &Traffic::indexes},
    Counter{"leat_relay_received_beacons_total", "Beacons", &Traffic::beacons},
    Counter{"leat_relay_received_metadata_bytes_total", "Bytes of metadata", &Traffic::metadata_bytes},
    Counter{"leat_relay_lost_packets_total", "Packets of which the data or the index never came",
            &Traffic::lost_packets},
    Counter{"leat_relay_removed_packets_total", "Packets that went into files which somebody had removed",
            &Traffic::removed_packets},
    Counter{"leat_relay_sessions_total", "Sessions that producers have begun", &Traffic::sessions},
    Counter{"leat_relay_refused_connections_total", "Connections that got no place", &Traffic::refused_connections},
    Counter{"leat_relay_disk_stalls_total", "Times that a connection began to wait for room on the disk",
            &Traffic::disk_stalls},
};

// A name is its peer's: what is not plain ASCII text becomes '?', so that the page stays valid UTF-8.
std::string plain(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return !is_printable(c) || static_cast<unsigned char>(c) > 0x7f; }, '?');
    return text;
}

struct SessionFigures {
    net::MetricLabels labels;
    std::size_t streams;  // that have not finished
    std::uint32_t viewers;
    double silence;  // s since viewers could see something new
};

SessionFigures figures_of(StoredSession& session, Time now) {
    const StoredSession::Description& described = session.description();
    const auto [streams, newest] =
        session.locked([](const SessionState& state) { return std::pair(state.open_names.size(), state.last_change); });
    return {.labels = {{"id", std::to_string(described.id)},
                       {"host", plain(described.request.hostname)},
                       {"session", plain(described.request.session_name)}},
            .streams = streams,
            .viewers = session.viewers,
            .silence = std::chrono::duration<double>(now - newest).count()};
}

std::string connections(const Admission& admission) {
    constexpr const char* kName = "leat_relay_connections";
    using Port = Admission::Port;
    std::string text = metric_head(kName, "gauge", "Open connections: of producers (control, data), of viewers (live)");
    for (const Port port : {Port::kControl, Port::kData, Port::kLive})
        text += metric_line(kName, {{"port", Admission::name_of(port)}}, static_cast<double>(admission.open(port)));
    return text;
}

template <class Value>
std::string for_sessions(const char* name, const char* help, const std::vector<SessionFigures>& sessions, Value value) {
    std::string text = metric_head(name, "gauge", help);
    for (const SessionFigures& session : sessions) text += metric_line(name, session.labels, value(session));
    return text;
}

}  // namespace

std::string metrics_page(Relay& relay, const Admission& admission) {
    std::string page;
    for (const Counter& counter : kCounters) {
        const double value = static_cast<double>((relay.traffic().*counter.count).load());
        page += metric_head(counter.name, "counter", counter.help) + metric_line(counter.name, {}, value);
    }
    page += net::descriptor_metrics();
    page += connections(admission);
    const auto open = relay.sessions();
    page += metric_head("leat_relay_sessions", "gauge", "Sessions whose producers are connected") +
            metric_line("leat_relay_sessions", {}, static_cast<double>(open.size()));
    std::vector<SessionFigures> listed;
    const Time now = relay::now();
    for (const auto& session : std::span(open).first(std::min(open.size(), kMaxListed)))
        listed.push_back(figures_of(*session, now));
    page += for_sessions("leat_relay_session_streams", "Streams of the session", listed,
                         [](const SessionFigures& session) { return static_cast<double>(session.streams); });
    page += for_sessions("leat_relay_session_viewers", "Viewers that are attached to the session", listed,
                         [](const SessionFigures& session) { return static_cast<double>(session.viewers); });
    page += for_sessions("leat_relay_session_silence_seconds", "Time since viewers could see something new", listed,
                         [](const SessionFigures& session) { return session.silence; });
    return page;
}

}  // namespace leat::relay
