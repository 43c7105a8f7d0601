#include "host/answering.hpp"

#include <utility>

namespace leat::host {

session::Application application_of(wire::AppRegistration registration) {
    return {.pid = registration.pid,
            .vpid = registration.pid,
            .uid = registration.uid,
            .procname = std::move(registration.procname),
            .bitness = registration.bitness,
            .tracepoints = std::make_shared<const session::Tracepoints>(std::move(registration.tracepoints))};
}

Result<void> send_channels(wire::AppConnection& connection, std::span<const session::TraceChannel* const> channels) {
    for (const session::TraceChannel* const channel : channels)
        LEAT_TRY(connection.send_channel(channel->message(), channel->rings().fd(), channel->clock_fd(),
                                         channel->app_context_names()));
    return {};
}

Result<void> switch_tracepoints(wire::ControlFile& control, std::span<const std::vector<wire::Action>> actions) {
    Result<void> all;
    for (std::uint32_t i = 0; i < actions.size(); ++i)
        if (auto switched = control.switch_to(i, actions[i]); !switched && all) all = std::move(switched);
    return all;
}

}  // namespace leat::host
