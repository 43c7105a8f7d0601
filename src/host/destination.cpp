#include "host/destination.hpp"

#include "net/waiting_socket.hpp"
#include "output/relay_output.hpp"
#include "output/tee.hpp"
#include "output/trace_directory.hpp"
#include "session/trace_description.hpp"

namespace leat::host {
namespace {

// The timer that we announce to a live session's relay. LTTng's viewers use it to guess how often to ask.
constexpr std::uint32_t kLiveTimerUs = std::chrono::microseconds(Recording::kLiveTick).count();

std::vector<output::ChannelFiles> channel_files(const session::Trace& trace) {
    std::vector<output::ChannelFiles> files;
    for (const auto& channel : trace.channels()) files.push_back({.name = channel->name(), .limits = channel->files()});
    return files;
}

output::SessionDescription relay_session(const session::Trace& trace, const std::string& session_name, bool is_live) {
    return {.name = session_name,
            .hostname = session::host_name(),
            .trace_path = trace.path(),
            .channels = channel_files(trace),
            .live_timer_us = is_live ? kLiveTimerUs : 0,
            .trace_uuid = trace.uuid()};
}

Result<std::unique_ptr<consumer::Output>> open_directory(const session::Trace& trace, const Destination& destination,
                                                         const consumer::Progress* progress) {
    const auto owner = destination.belongs_to_users ? std::optional(trace.key().uid) : std::nullopt;
    if (progress == nullptr || !trace.is_adopted())
        return LEAT_TRY(
            output::TraceDirectory::create(destination.directory, trace.path(), channel_files(trace), owner));
    output::TraceFiles::Stored stored;
    for (const auto& [stream, known] : progress->begun()) stored.emplace(stream, known.sequence_number);
    return LEAT_TRY(
        output::TraceDirectory::resume(destination.directory, trace.path(), channel_files(trace), owner, stored));
}

}  // namespace

// Their streams have no indexes, by which alone a relay believes datagrams (docs/formats/relay-ingest.md).
Result<void> check_relay_of_snapshots(const net::RelayAddress& relay) {
    if (relay.takes_datagrams) return refused("snapshots do not go as datagrams: write net:// instead of net+udp://");
    return {};
}

Result<void> check_place_of_snapshots(const Destination& destination) {
    if (destination.is_live)
        return refused(
            "snapshots are stored whole, so nobody can follow them live: send them to the relay with -o URL");
    if (destination.has_both()) return refused("snapshots go to a directory or to a relay, not to both: give one -o");
    return destination.relay ? check_relay_of_snapshots(*destination.relay) : Result<void>();
}

Result<void> prepare(const Destination& destination) {
    return destination.has_directory() ? output::TraceDirectory::prepare(destination.directory)
                                       : reach_relay(destination);
}

Result<void> reach_relay(const Destination& destination) {
    constexpr int kNothingStopsUs = -1;
    auto reached =
        net::WaitingSocket::connect(destination.relay->host, destination.relay->control_port, kNothingStopsUs);
    if (reached) return {};
    return wrap(fmt::format("cannot reach relay {}", to_text(*destination.relay)), std::move(reached).error());
}

Result<std::unique_ptr<consumer::Output>> open_output(const session::Trace& trace, const std::string& session_name,
                                                      const Destination& destination,
                                                      const consumer::Progress* progress) {
    if (!destination.relay) return open_directory(trace, destination, progress);
    const output::SessionDescription session = relay_session(trace, session_name, destination.is_live);
    using Place = output::RelayOutput::Place;
    if (!destination.has_directory()) return output::RelayOutput::begin(*destination.relay, session, Place::kAlone);
    auto directory = LEAT_TRY(open_directory(trace, destination, progress));
    return std::make_unique<output::Tee>(std::move(directory),
                                         output::RelayOutput::begin(*destination.relay, session, Place::kBesideAnother),
                                         "relay " + to_text(*destination.relay));
}

Result<std::unique_ptr<consumer::Output>> open_output_that_is_there(const session::Trace& trace,
                                                                    const std::string& session_name,
                                                                    const Destination& destination) {
    if (destination.has_directory()) return open_output(trace, session_name, destination);
    return LEAT_TRY(
        output::RelayOutput::connect(*destination.relay, relay_session(trace, session_name, destination.is_live)));
}

Result<std::unique_ptr<output::RelaySnapshot>> open_snapshot(const session::Trace& trace,
                                                             const std::string& session_name,
                                                             std::uint64_t session_start,
                                                             const net::RelayAddress& relay,
                                                             const output::SnapshotDescription& snapshot) {
    output::SessionDescription session = relay_session(trace, session_name, false);
    session.snapshot = snapshot;
    return output::RelaySnapshot::connect(relay, session, session_start);
}

// For a relay, wake the consumer earlier: it gives room back later than a disk does.
Recording::Parameters recording_parameters(const Destination& destination) {
    return {.is_live = destination.is_live,
            .wake_at_part = destination.has_directory() ? 2U : 4U,
            .is_copied = destination.has_both()};
}

}  // namespace leat::host
