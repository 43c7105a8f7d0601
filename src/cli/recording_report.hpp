#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.hpp"
#include "cli/process_end.hpp"
#include "cli/snapshot_report.hpp"
#include "host/destination.hpp"
#include "host/recorder.hpp"
#include "output/relay_output.hpp"

namespace leat::cli {

// The program that was to be recorded.
struct RecordedProgram {
    std::string name;  // as the user gave it
    bool is_preloaded;
    session::Limits limits{};
};

// The results of a recording: one line for people, a file for programs.
class RecordingReport {
  public:
    // `recorder` has finished, and outlives the report.
    // `snapshots`: of a flight recorder.
    RecordingReport(const host::Recorder& recorder, const host::Destination& destination, RecordedProgram program,
                    const SnapshotReport& snapshots, ProcessEnd end)
        : recorder_(recorder),
          recording_(recorder.recording()),
          destination_(destination),
          program_(std::move(program)),
          snapshots_(snapshots),
          end_(end) {}

    // On stderr: warnings, then events, bytes, streams, discarded, and how to see them; or why there are none.
    void print() const;

    // JSON.
    Result<void> write_summary(const std::filesystem::path& file) const;

  private:
    // Of the channel that asks a flight recorder for snapshots, nobody wants to know.
    [[nodiscard]] consumer::Totals totals() const {
        return recording_.is_for_snapshots() ? consumer::Totals{} : recording_.consumer().totals();
    }
    [[nodiscard]] std::uint64_t unreadable() const {
        return recording_.is_for_snapshots() ? 0 : recording_.consumer().unreadable();
    }
    [[nodiscard]] std::uint64_t beyond_limit() const {
        return recording_.is_for_snapshots() ? 0 : recording_.consumer().beyond_limit();
    }
    // Events that are nowhere.
    [[nodiscard]] std::uint64_t discarded() const { return recording_.discarded() + recorder_.not_attached(); }
    [[nodiscard]] nlohmann::ordered_json figures() const;
    [[nodiscard]] nlohmann::ordered_json discarded_by_reason() const;
    [[nodiscard]] std::string closing_line() const;
    [[nodiscard]] std::string closing_line_of_snapshots() const;
    [[nodiscard]] std::string why_nothing() const;
    [[nodiscard]] std::string why_unregistered() const;
    [[nodiscard]] std::string how_to_see_them() const;
    [[nodiscard]] std::string where() const;
    // Null if the recording goes into a directory.
    [[nodiscard]] const output::RelayOutput* relay() const {
        return dynamic_cast<const output::RelayOutput*>(&recording_.output());
    }
    void print_output_error() const;

    const host::Recorder& recorder_;
    const host::Recording& recording_;
    host::Destination destination_;
    RecordedProgram program_;
    const SnapshotReport& snapshots_;
    ProcessEnd end_;  // of the program
};

}  // namespace leat::cli
