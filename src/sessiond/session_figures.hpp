// What people want to know of a session in numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sessiond/channel_figures.hpp"
#include "sessiond/tracing.hpp"

namespace leat::sessiond {

// Of one channel of a trace: what its thread says of it, and its rings.
ChannelFigures figures_of(const session::TraceChannel& channel, const SessionThread::Figures& figures,
                          std::size_t index);

// Of a channel in all traces, also those that have ended.
ChannelFigures figures_of(const DaemonSession& session, std::size_t channel);
// How full the fullest of its rings is, from 0 to 1.
double fill_of(const DaemonSession& session, std::size_t channel);

// Bytes of memory that it has touched: rings, registries, metadata, progress; also of traces that are being stored.
std::uint64_t memory_of(const DaemonSession& session);
// Programs that record for it now.
std::size_t application_count(const DaemonSession& session, const Applications& applications);
// Those of them that discard events in channels that block, because they do not allow to be blocked.
std::size_t not_blocking_count(const DaemonSession& session, const Applications& applications);

}  // namespace leat::sessiond
