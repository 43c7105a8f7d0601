#include "sessiond/session_figures.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace leat::sessiond {
namespace {

using ring::DiscardReason;

struct NamedReason {
    DiscardReason reason;
    const char* name;
};
constexpr std::array kReasons{
    NamedReason{DiscardReason::kRingFull, "ring_full"}, NamedReason{DiscardReason::kTooLarge, "too_large"},
    NamedReason{DiscardReason::kNoRing, "no_ring"}, NamedReason{DiscardReason::kInterrupted, "interrupted"},
    NamedReason{DiscardReason::kBorrowed, "borrowed"}};

// Programs with an event that goes to a channel of the session, where that `counts(file, channel)`.
template <class Counts>
std::size_t count_recorded(const DaemonSession& session, const Applications& applications, Counts counts) {
    std::set<session::ProcessKey> programs;
    for (const auto& [id, file] : applications.files()) {
        const auto is_ours = [&](const std::vector<wire::Action>& actions) {
            return std::ranges::any_of(actions, [&](const wire::Action& action) {
                const session::TraceChannel* const channel = session.session.find_channel(action.channel);
                return channel != nullptr && counts(file, *channel);
            });
        };
        if (std::ranges::any_of(file.orders, is_ours)) programs.insert(file.application.process());
    }
    return programs.size();
}

// Bytes of a memory file that are there.
std::uint64_t touched(int fd) {
    constexpr std::uint64_t kBlock = 512;
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * kBlock : 0;
}

}  // namespace

// Discards come straight from the rings, so that they are exact whatever the thread does.
ChannelFigures figures_of(const session::TraceChannel& channel, const SessionThread::Figures& figures,
                          std::size_t index) {
    ChannelFigures sum{.events = figures.events[index], .bytes = figures.bytes[index]};
    const auto add = [&sum](const char* reason, std::uint64_t count) {
        if (count != 0) sum.discarded[reason] += count;
    };
    const ring::RingSet& rings = channel.rings();
    const std::uint32_t used = rings.mapped_in_use();
    for (std::uint32_t ring = 0; ring < used; ++ring) {
        const ring::RingReader reader = rings.reader(ring);
        for (const NamedReason& reason : kReasons) add(reason.name, reader.discarded(reason.reason));
    }
    add("unreadable", figures.unreadable[index]);
    add("beyond_limit", figures.beyond_limit[index]);
    return sum;
}

ChannelFigures figures_of(const DaemonSession& session, std::size_t channel) {
    const std::string& name = session.session.channels()[channel].name;
    ChannelFigures sum;
    const auto ended = session.ended.find(name);
    if (ended != session.ended.end()) sum.add(ended->second);
    for (const auto& [key, trace] : session.session.traces())
        sum.add(figures_of(*trace->channels()[channel], session.thread->figures(*trace), channel));
    for (const auto& trace : session.ending_traces)
        sum.add(figures_of(*trace->channels()[channel], session.thread->figures(*trace), channel));
    const auto lost = session.not_attached.find(name);
    if (lost != session.not_attached.end()) sum.discarded["not_attached"] += lost->second;
    return sum;
}

double fill_of(const DaemonSession& session, std::size_t channel) {
    double fullest = 0;
    for (const auto& [key, trace] : session.session.traces()) {
        const ring::RingSet& rings = trace->channels()[channel]->rings();
        fullest =
            std::max(fullest, static_cast<double>(rings.fullest()) / static_cast<double>(rings.geometry().ring_size));
    }
    return fullest;
}

std::uint64_t memory_of(const DaemonSession& session) {
    std::uint64_t sum = 0;
    const auto add_trace = [&sum](const session::Trace& trace) {
        if (trace.parameters().is_kept) {
            for (const int fd : trace.memory()) sum += touched(fd);
            return;
        }
        for (const auto& channel : trace.channels()) sum += touched(channel->rings().fd());
    };
    for (const auto& [key, trace] : session.session.traces()) add_trace(*trace);
    for (const auto& trace : session.ending_traces) add_trace(*trace);
    for (const auto& [trace, part] : session.parts)
        if (part.progress) sum += touched(part.progress->fd());
    return sum;
}

std::size_t application_count(const DaemonSession& session, const Applications& applications) {
    return count_recorded(session, applications, [](const TracedFile&, const session::TraceChannel&) { return true; });
}

std::size_t not_blocking_count(const DaemonSession& session, const Applications& applications) {
    return count_recorded(session, applications, [](const TracedFile& file, const session::TraceChannel& channel) {
        return channel.is_blocking() && !file.control.allows_blocking();
    });
}

}  // namespace leat::sessiond
