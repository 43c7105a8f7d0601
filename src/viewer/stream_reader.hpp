#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "base/result.hpp"
#include "ctf/packet_decoder.hpp"
#include "viewer/message.hpp"
#include "viewer/recorded_trace.hpp"

namespace leat::viewer {

// Reads one recorded stream from its first packet to its last.
class StreamReader {
  public:
    // The trace must outlive the reader.
    StreamReader(const RecordedTrace& trace, const RecordedStream& stream);

    // Goes to the next message; false after the last. Errors name the file and the offset, and end the stream.
    Result<bool> next();
    // An event in it lives until the next call of next().
    [[nodiscard]] const Message& message() const { return message_; }

    [[nodiscard]] const RecordedStream& stream() const { return *stream_; }

  private:
    Result<bool> next_in_packet();
    Result<void> start_packet(const RecordedPacket& packet);
    void queue_discarded_events(const ctf::PacketProperties& packet);
    void queue_discarded_packets(const ctf::PacketProperties& packet);
    void queue(Message::Kind kind, std::optional<std::int64_t> time_ns, Loss loss = {});
    [[nodiscard]] Message message_of(Message::Kind kind, std::optional<std::int64_t> time_ns) const;
    [[nodiscard]] std::optional<std::int64_t> end_of(const ctf::PacketProperties& packet) const;

    const ctf::TraceClass* trace_class_;
    const RecordedStream* stream_;
    ctf::PacketDecoder decoder_;
    bool forgives_open_packets_;
    std::size_t next_packet_ = 0;
    const RecordedPacket* packet_ = nullptr;           // that is being read; null: between two
    std::optional<ctf::PacketProperties> previous_{};  // of the packet before it
    std::optional<std::int64_t> last_ns_{};            // of the last event, or the packet's begin
    std::deque<Message> queue_;                        // to be told before anything else is read
    Message message_;
};

}  // namespace leat::viewer
