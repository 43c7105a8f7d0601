#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/live_trace.hpp"
#include "viewer/read/packet_reader.hpp"

namespace leat::viewer {

// A stream that grows: it is fed packet by packet, and tells in between up to when it has nothing to say. Holds one
// packet at most.
class LiveStream {
  public:
    explicit LiveStream(StreamIdentity stream) : stream_(std::move(stream)), reader_(stream_) {}
    LiveStream(const LiveStream&) = delete;
    LiveStream& operator=(const LiveStream&) = delete;

    // Whether it needs to be fed before anything more can be said.
    [[nodiscard]] bool is_hungry() const { return !has_message_ && !is_ended_; }
    [[nodiscard]] bool is_finished() const { return !has_message_ && is_ended_; }
    [[nodiscard]] bool has_message() const { return has_message_; }
    [[nodiscard]] const Message& message() const { return reader_.message(); }
    // Nothing older comes; while there is no message.
    [[nodiscard]] std::int64_t horizon_ns() const { return horizon_ns_; }
    [[nodiscard]] const StreamIdentity& identity() const { return stream_; }

    // When hungry. An error ends the stream.
    Result<void> feed(std::shared_ptr<TraceModel> model, std::vector<std::byte> packet, std::uint64_t offset);
    void quiet_until(std::int64_t time_ns);
    // A packet that will not be fed, because the network lost it; before those that follow it.
    void note_lost_packet(std::uint64_t sequence_number) { stream_.lost_packets.push_back(sequence_number); }
    // Before a packet: some of those between it and the last one are gone, because files were replaced.
    void note_missed_files() { reader_.note_missed_files(); }
    // After what it holds.
    void end() { is_ended_ = true; }

    // Goes on behind the message. An error ends the stream.
    Result<void> advance();

  private:
    // Reads the head of packet_.
    Result<void> start(std::uint64_t offset);

    StreamIdentity stream_;
    PacketReader reader_;
    std::shared_ptr<TraceModel> model_;  // of the packet
    std::vector<std::byte> packet_;
    bool has_message_ = false;
    bool is_ended_ = false;
    std::int64_t horizon_ns_ = INT64_MIN;
};

}  // namespace leat::viewer
