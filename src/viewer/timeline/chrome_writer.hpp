#pragma once

#include <cstdint>
#include <optional>

#include "viewer/sink/text_buffer.hpp"
#include "viewer/timeline/timeline.hpp"

namespace leat::viewer {

// The JSON that chrome://tracing, Perfetto's page and Speedscope read: an object with "traceEvents"
// ([trace-event-format]). Times are in microseconds from the first event, because readers compute with doubles;
// "otherData" has the first event's.
class ChromeWriter : public TimelineWriter {
  public:
    explicit ChromeWriter(TextBuffer& buffer) : buffer_(buffer) {}

    void begin();
    void track(const Track& track) override;
    void event(const Track& track, Phase phase, std::int64_t time_ns, std::string_view title,
               const ctf::EventRecord* event) override;
    void finish();

  private:
    void begin_object();
    void name_track(const Track& track, std::string_view what, std::string_view name);

    TextBuffer& buffer_;
    bool has_objects_ = false;
    bool has_cpus_ = false;
    std::optional<std::int64_t> first_ns_{};
};

}  // namespace leat::viewer
