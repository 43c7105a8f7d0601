#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/result.hpp"
#include "host/recording.hpp"
#include "net/relay_address.hpp"

namespace leat::host {

// Where a recording goes.
struct Destination {
    std::filesystem::path directory{};  // if there is no relay
    std::optional<net::RelayAddress> relay{};
    bool is_live = false;  // read while it runs
    // Of each stream: bytes, and how many are kept. 0: without limit. Only a relay takes them.
    std::uint64_t tracefile_size = 0;
    std::uint64_t tracefile_count = 0;
};

// A recording of a new session that goes there, ready to hear from applications that look into `runtime_directory`.
Result<std::unique_ptr<Recording>> create_recording(const session::SessionParameters& parameters,
                                                    const std::filesystem::path& runtime_directory,
                                                    const Destination& destination);

}  // namespace leat::host
