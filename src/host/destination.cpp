#include "host/destination.hpp"

#include "output/relay_output.hpp"
#include "output/trace_directory.hpp"
#include "session/trace_description.hpp"

namespace leat::host {
namespace {

constexpr char kChannel[] = "channel0";

// The timer that we announce to a live session's relay. LTTng's viewers use it to guess how often to ask.
constexpr std::uint32_t kLiveTimerUs = std::chrono::microseconds(Recording::kLiveTick).count();

output::SessionDescription relay_session(const session::Session& session, const session::SessionParameters& parameters,
                                         const Destination& destination) {
    return {.name = parameters.name,
            .hostname = session::host_name(),
            .trace_path = fmt::format("ust/uid/{}/64-bit", parameters.uid),
            .channel = kChannel,
            .live_timer_us = destination.is_live ? kLiveTimerUs : 0,
            .tracefile_size = destination.tracefile_size,
            .tracefile_count = destination.tracefile_count,
            .trace_uuid = *session.trace_class().uuid};
}

Result<std::unique_ptr<consumer::Output>> open_output(const session::Session& session,
                                                      const session::SessionParameters& parameters,
                                                      const Destination& destination) {
    if (!destination.relay)
        return LEAT_TRY(output::TraceDirectory::create(destination.directory, parameters.uid, kChannel));
    return LEAT_TRY(output::RelayOutput::connect(*destination.relay, relay_session(session, parameters, destination)));
}

}  // namespace

Result<std::unique_ptr<Recording>> create_recording(const session::SessionParameters& parameters,
                                                    const std::filesystem::path& runtime_directory,
                                                    const Destination& destination) {
    session::Session session = LEAT_TRY(session::Session::create(parameters));
    wire::AppSocket socket = LEAT_TRY(wire::AppSocket::listen(runtime_directory));
    std::unique_ptr<consumer::Output> output = LEAT_TRY(open_output(session, parameters, destination));
    // For a relay, wake the consumer earlier: it gives room back later than a disk does.
    const std::uint64_t wake_after = parameters.ring_size / (destination.relay ? 4 : 2);
    return Recording::create(std::move(session), std::move(output), std::move(socket),
                             {.is_live = destination.is_live, .wake_after = wake_after});
}

}  // namespace leat::host
