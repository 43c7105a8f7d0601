#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/flight_recorder.hpp"

namespace leat::cli {

// What became of the snapshots of a recording: told as they are made, and at the end.
class SnapshotReport {
  public:
    // `why`: "asked for", "the end".
    void add(const Result<host::StoredSnapshot>& snapshot, const char* why);

    // Of all of them: an event counts as often as it is stored.
    [[nodiscard]] std::uint64_t events() const { return events_; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t packets() const { return packets_; }
    [[nodiscard]] std::size_t count() const { return stored_.size(); }
    [[nodiscard]] bool has_failed() const { return has_failed_; }
    [[nodiscard]] const nlohmann::ordered_json& json() const { return stored_; }

  private:
    nlohmann::ordered_json stored_ = nlohmann::ordered_json::array();
    std::uint64_t events_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t packets_ = 0;
    bool has_failed_ = false;
};

}  // namespace leat::cli
