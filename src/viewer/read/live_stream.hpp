#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/live_trace.hpp"
#include "viewer/read/packet_reader.hpp"

namespace leat::viewer {

// A stream that grows. It is fed packet by packet. Between packets it knows a time before which it has nothing to say.
// It holds at most one packet.
class LiveStream {
  public:
    explicit LiveStream(StreamIdentity stream) : stream_(std::move(stream)), reader_(stream_) {}
    LiveStream(const LiveStream&) = delete;
    LiveStream& operator=(const LiveStream&) = delete;

    // Whether it must be fed before it can tell more.
    [[nodiscard]] bool is_hungry() const { return !has_message_ && !is_ended_; }
    [[nodiscard]] bool is_finished() const { return !has_message_ && is_ended_; }
    // Whether it takes no more packets; it may still tell the one that it holds.
    [[nodiscard]] bool is_ended() const { return is_ended_; }
    [[nodiscard]] bool has_message() const { return has_message_; }
    [[nodiscard]] const Message& message() const { return reader_.message(); }
    // Valid while there is no message: nothing older will come.
    [[nodiscard]] std::int64_t horizon_ns() const { return horizon_ns_; }
    [[nodiscard]] const StreamIdentity& identity() const { return stream_; }

    // Decides about a packet by its head, before it changes anything.
    using IsWanted = std::function<bool(std::uint64_t stream_class_id, const ctf::PacketProperties&)>;
    // Call this only if is_hungry(). A packet that is not wanted is left out. An error ends the stream.
    Result<void> feed(std::shared_ptr<TraceModel> model, std::vector<std::byte> packet, std::uint64_t offset,
                      const IsWanted& is_wanted = {});
    void quiet_until(std::int64_t time_ns);
    // Notes a packet that will not be fed because the network lost it. Call this before feeding the packets after it.
    void note_lost_packet(std::uint64_t sequence_number) { stream_.lost_packets.push_back(sequence_number); }
    // Call this before feeding a packet if some packets before it are gone because files were replaced.
    void note_missed_files() { reader_.note_missed_files(); }
    // The stream ends after the packet it holds.
    void end() { is_ended_ = true; }

    // Goes on after the message. An error ends the stream.
    Result<void> advance();

  private:
    // Reads the head of packet_. False: it is not wanted.
    Result<bool> start(std::uint64_t offset, const IsWanted& is_wanted);

    StreamIdentity stream_;
    PacketReader reader_;
    std::shared_ptr<TraceModel> model_;  // of the packet
    std::vector<std::byte> packet_;
    bool has_message_ = false;
    bool is_ended_ = false;
    std::int64_t horizon_ns_ = INT64_MIN;
};

}  // namespace leat::viewer
