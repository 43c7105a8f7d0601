#pragma once

#include <cstdint>
#include <span>

#include "viewer/sink/text_buffer.hpp"
#include "viewer/timeline/protobuf_message.hpp"
#include "viewer/timeline/timeline.hpp"

namespace leat::viewer {

// A trace of Perfetto, as its page and its trace processor read it: track events ([perfetto-trace]). It needs neither
// begin nor end.
class PerfettoWriter : public TimelineWriter {
  public:
    explicit PerfettoWriter(TextBuffer& buffer) : buffer_(buffer) {}

    void track(const Track& track) override;
    void event(const Track& track, Phase phase, std::int64_t time_ns, std::string_view title,
               const ctf::EventRecord* event) override;

  private:
    void append_packet(ProtobufMessage packet);

    TextBuffer& buffer_;
    bool has_packets_ = false;
    bool has_events_ = false;
    std::int64_t origin_ns_ = 0;
};

}  // namespace leat::viewer
