#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/packet_reader.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::viewer {

// Whether packets of this plan have times that go on from the one before, which must have been read.
bool has_narrow_time(const ctf::DecodePlan& plan);

// Reads one recorded stream from its first packet to its last.
class StreamReader {
  public:
    // The trace must outlive the reader. `events_at_once`: how many of one packet are found before they are told.
    StreamReader(const RecordedTrace& trace, const RecordedStream& stream,
                 std::size_t events_at_once = PacketReader::kEventsAtOnce)
        : trace_class_(&trace.trace_class()), stream_(&stream), reader_(stream, events_at_once) {}

    // Passes over packets that have no event at this time or later, of which only the head was read. Before next().
    void pass_over_before(std::int64_t time_ns);

    // Goes to the next message; false after the last. An error names the file and the offset, and ends the stream.
    Result<bool> next();
    [[nodiscard]] const Message& message() const { return reader_.message(); }
    // As those of PacketReader.
    [[nodiscard]] std::span<const ctf::EventPlace> found() const { return reader_.found(); }
    void take_found() { reader_.take_found(); }
    bool find_more(std::size_t left) { return reader_.find_more(left); }
    // Of the packets that were begun, or passed over; and of all.
    [[nodiscard]] std::uint64_t bytes_begun() const { return bytes_begun_; }
    [[nodiscard]] std::uint64_t bytes_in_all() const;

  private:
    const ctf::TraceClass* trace_class_;
    const RecordedStream* stream_;
    PacketReader reader_;
    std::size_t next_packet_ = 0;
    std::uint64_t bytes_begun_ = 0;
    const RecordedPacket* packet_ = nullptr;  // the packet that was begun last
    bool is_finished_ = false;
};

}  // namespace leat::viewer
