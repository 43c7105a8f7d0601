#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "ctf/decode/event_record.hpp"
#include "viewer/filter/selected_events.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/event_decoder.hpp"
#include "viewer/read/recorded_trace.hpp"
#include "viewer/stats/losses.hpp"

namespace leat::library {

// Traces on disk, event by event.
class TraceReader {
  public:
    struct Wanted {
        std::optional<viewer::FilterExpression> expression{};
        std::int64_t begin_ns = INT64_MIN;
        std::int64_t end_ns = INT64_MAX;
    };
    static Result<TraceReader> open(const std::vector<std::filesystem::path>& paths, Wanted wanted);

    // What all events satisfy.
    [[nodiscard]] std::optional<viewer::EventExpression> filter() const {
        return viewer::Selection{.expression = wanted_.expression}.filter();
    }

    // Called now and then while events are looked at. An error ends the traces.
    void check(std::function<Result<void>()> check);

    // Goes to the next event; false: there is none. After an error, it stands behind the last event that can be read.
    Result<bool> next();
    // The next event is the first at this time or later. After an error, all is as before.
    Result<void> seek(std::int64_t time_ns);

    [[nodiscard]] bool has_event() const { return event_ != nullptr; }
    // Of the event; valid until the next.
    [[nodiscard]] const viewer::PacketView& packet() const { return *event_->packet; }
    [[nodiscard]] const ctf::EventPlace& place() const { return *event_->place; }
    // Decoded when it is asked for. An error: the file has changed meanwhile.
    Result<const ctf::EventRecord*> record();

    // Up to the event.
    [[nodiscard]] const viewer::Losses& losses() const { return losses_; }
    [[nodiscard]] const viewer::RecordedTraces& traces() const { return traces_; }

  private:
    TraceReader(viewer::RecordedTraces traces, Wanted wanted)
        : traces_(std::move(traces)), wanted_(std::move(wanted)) {}

    viewer::RecordedTraces traces_;
    std::vector<std::filesystem::path> denied_{};  // of whose events none are among these
    Wanted wanted_;
    std::function<Result<void>()> check_{};
    std::optional<viewer::SelectedEvents> events_{};
    std::span<const viewer::FoundEvent> following_{};  // not gone to yet
    const viewer::FoundEvent* event_ = nullptr;
    viewer::EventDecoder decoder_{};
    const ctf::EventRecord* record_ = nullptr;
    viewer::Losses losses_{};
};

}  // namespace leat::library
