#include "sessiond/metrics.hpp"

#include <set>
#include <utility>

#include "net/metrics_server.hpp"
#include "sessiond/session_figures.hpp"

namespace leat::sessiond {
namespace {

using net::metric_head;
using net::metric_line;

// One family of metrics: a line for each channel of each session.
template <class LinesOf>
std::string for_channels(const char* name, const char* type, const char* help, Tracing& tracing, LinesOf lines_of) {
    std::string text = metric_head(name, type, help);
    for (const auto& [session_name, session] : tracing.sessions()) {
        const auto& channels = session.session.channels();
        for (std::size_t i = 0; i < channels.size(); ++i)
            text += lines_of(session, i, net::MetricLabels{{"session", session_name}, {"channel", channels[i].name}});
    }
    return text;
}

std::size_t program_count(const Applications& applications) {
    std::set<session::ProcessKey> programs;
    for (const auto& [id, file] : applications.files()) programs.insert(file.application.process());
    return programs.size();
}

}  // namespace

std::string metrics_page(Tracing& tracing) {
    tracing.count_not_attached();
    constexpr const char* kEvents = "leat_events_total";
    constexpr const char* kDiscarded = "leat_discarded_events_total";
    constexpr const char* kFill = "leat_ring_fill_ratio";
    constexpr const char* kActive = "leat_session_active";
    constexpr const char* kStopped = "leat_session_stopped";
    constexpr const char* kMemory = "leat_session_memory_bytes";
    constexpr const char* kPrograms = "leat_programs";
    std::string page =
        for_channels(kEvents, "counter", "Event records in packets", tracing,
                     [](const DaemonSession& session, std::size_t channel, const net::MetricLabels& labels) {
                         return metric_line(kEvents, labels, static_cast<double>(figures_of(session, channel).events));
                     });
    page += for_channels(kDiscarded, "counter", "Events that are not in the trace", tracing,
                         [](const DaemonSession& session, std::size_t channel, net::MetricLabels labels) {
                             std::string lines;
                             for (const auto& [reason, count] : figures_of(session, channel).discarded) {
                                 net::MetricLabels with_reason = labels;
                                 with_reason.emplace_back("reason", reason);
                                 lines += metric_line(kDiscarded, with_reason, static_cast<double>(count));
                             }
                             return lines;
                         });
    page += for_channels(kFill, "gauge", "How full the fullest ring is", tracing,
                         [](const DaemonSession& session, std::size_t channel, const net::MetricLabels& labels) {
                             return metric_line(kFill, labels, fill_of(session, channel));
                         });
    page += metric_head(kActive, "gauge", "Whether the session records");
    for (const auto& [name, session] : tracing.sessions())
        page += metric_line(kActive, {{"session", name}}, session.session.is_active() ? 1 : 0);
    page += metric_head(kStopped, "gauge", "Whether a limit of the session has stopped it");
    for (const auto& [name, session] : tracing.sessions())
        if (session.stopped_by != session::StoppedBy::kNobody)
            page += metric_line(kStopped, {{"session", name}, {"reason", session::name_of(session.stopped_by)}}, 1);
    page += metric_head(kMemory, "gauge", "Memory of the session's rings");
    for (const auto& [name, session] : tracing.sessions())
        page += metric_line(kMemory, {{"session", name}}, static_cast<double>(memory_of(session)));
    page += metric_head(kPrograms, "gauge", "Programs that may be traced");
    page += metric_line(kPrograms, {}, static_cast<double>(program_count(tracing.applications())));
    return page + net::descriptor_metrics();
}

}  // namespace leat::sessiond
