// What daemons tell programs, from a session's orders.
#pragma once

#include <span>
#include <vector>

#include "base/result.hpp"
#include "session/session.hpp"
#include "wire/app/app_socket.hpp"

namespace leat::host {

session::Application application_of(wire::AppRegistration registration);

// Hands over channels, which the application attaches unless it has them.
Result<void> send_channels(wire::AppConnection& connection, std::span<const session::TraceChannel* const> channels);

// Switches each tracepoint of the file as its actions say.
Result<void> switch_tracepoints(wire::ControlFile& control, std::span<const std::vector<wire::Action>> actions);

}  // namespace leat::host
