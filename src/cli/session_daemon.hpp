// Where session daemons listen, and how `leat` starts one.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/control_client.hpp"

namespace leat::cli {

// Sockets of the daemons that may serve this user, the first one first: root's, and the user's own.
Result<std::vector<std::filesystem::path>> control_sockets();

// Connects to a daemon that runs.
Result<ControlClient> connect_to_daemon();

// What to start when no daemon runs.
struct DaemonStart {
    // The daemon beside this program, or else the one in PATH.
    DaemonStart();

    std::string program;
    // Somebody else may be starting one at the same time: how long to wait for that one if ours ends.
    std::chrono::milliseconds connect_patience = std::chrono::seconds(5);
};

// Starts a daemon if none runs, and connects.
Result<ControlClient> connect_or_start_daemon(const DaemonStart& start = {});

}  // namespace leat::cli
