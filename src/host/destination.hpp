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
    // Limits for the files of each stream: bytes in one file, and how many files are kept. 0: no limit. Only a relay
    // takes them.
    std::uint64_t tracefile_size = 0;
    std::uint64_t tracefile_count = 0;
};

// Creates a session and its recording to `destination`, ready to register applications that look into
// `runtime_directory`.
Result<std::unique_ptr<Recording>> create_recording(const session::SessionParameters& parameters,
                                                    const std::filesystem::path& runtime_directory,
                                                    const Destination& destination);

}  // namespace leat::host
