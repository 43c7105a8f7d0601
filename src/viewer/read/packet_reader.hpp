#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/mapped_file.hpp"
#include "base/result.hpp"
#include "ctf/decode/packet_decoder.hpp"
#include "ctf/decode/trace_plans.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/tracer_quirks.hpp"

namespace leat::viewer {

// Turns the packets of one stream into messages, packet by packet, whatever their source.
//
//     LEAT_TRY(reader.start(trace_class, plan, bytes, offset));
//     while (LEAT_TRY(reader.next())) use(reader.message());
class PacketReader {
  public:
    // Events are found so many at a time. Live streams tell each as soon as it is there.
    static constexpr std::size_t kEventsAtOnce = 256;

    // The stream must outlive the reader.
    explicit PacketReader(const StreamIdentity& stream, std::size_t events_at_once = kEventsAtOnce)
        : stream_(&stream), events_at_once_(events_at_once) {}

    // Begins the next packet of the stream, at the start of `bytes`. `offset` is for messages. Bytes, trace class and
    // plan must stay where they are until next() has returned false. Class and plan may get more events.
    // `mapping`: as in PacketView.
    Result<void> start(const ctf::TraceClass& trace_class, const ctf::DecodePlan& plan, UntrustedBytes bytes,
                       std::uint64_t offset, const MappedFile* mapping = nullptr);

    // start() in two steps, when the packet's plan must be found first. The caller looks at the properties in between:
    // a packet that it does not want leaves no trace in the messages. Not while a packet is being read.
    Result<ctf::PacketProperties> read_head(ctf::TracePlans& plans, UntrustedBytes bytes, std::uint64_t offset);
    Result<void> begin(const ctf::TraceClass& trace_class, const ctf::PacketProperties& properties,
                       UntrustedBytes bytes, std::uint64_t offset);

    // The next packet is not read: it is only the one before the next. Not while a packet is being read.
    void pass_over(const ctf::PacketProperties& properties);
    // Whether the packet should have come before the one that was read or passed over last.
    [[nodiscard]] bool is_behind(const ctf::PacketProperties& properties) const {
        return previous_ && properties.sequence_number && previous_->sequence_number &&
               *properties.sequence_number <= *previous_->sequence_number;
    }
    // The next packet is one of those: nothing is missing in front of it, and the packet after it follows the last one.
    void note_late_packet() { is_late_ = true; }

    // Goes to the next message; false at the end of the packet.
    Result<bool> next();
    [[nodiscard]] const Message& message() const { return message_; }
    // If the message is an event: it, and those that follow it in the packet and are found already; behind them is a
    // place with the time INT64_MIN, and two others. After take_found(), next() goes on behind them.
    [[nodiscard]] std::span<const ctf::EventPlace> found() const { return places().subspan(next_place_ - 1); }
    void take_found() { next_place_ = place_count_; }
    // Finds more events behind those, of which the last `left`, one at least, are not told yet; found() is then these
    // and what is new. False: there are none now, or an error is in the way, which next() tells behind them. From the
    // first call until take_found(), message() is none of them.
    bool find_more(std::size_t left);
    // The packets missing between the last packet and the next could have been read. They are missed, not discarded.
    void note_missed_files() { has_missed_files_ = true; }
    // Call this once after the last packet. next() then tells what else the network lost of the stream.
    void finish();
    // The stream class of the packet whose head was read last.
    [[nodiscard]] std::uint64_t stream_class_id() const { return plan_->stream_class->id; }

  private:
    [[nodiscard]] std::span<const ctf::EventPlace> places() const { return {places_.data(), place_count_}; }
    void use(const ctf::DecodePlan& plan);
    // Queues the messages it meets. Returns true if it has made an event the message.
    Result<bool> next_in_packet();
    void tell(const ctf::EventPlace& place);
    [[nodiscard]] std::uint64_t lost_before(const ctf::PacketProperties& packet) const;
    void queue_discarded_events(const ctf::PacketProperties& packet);
    void queue_discarded_packets(const ctf::PacketProperties& packet);
    void queue(Message::Kind kind, std::optional<std::int64_t> time_ns, Loss loss = {});
    [[nodiscard]] Message message_of(Message::Kind kind, std::optional<std::int64_t> time_ns) const;
    [[nodiscard]] std::optional<std::int64_t> end_of(const ctf::PacketProperties& packet) const;

    const StreamIdentity* stream_;
    std::size_t events_at_once_;
    const ctf::TraceClass* trace_class_ = nullptr;
    const ctf::TracePlans* plans_ = nullptr;  // where read_head() found plan_
    const ctf::DecodePlan* plan_ = nullptr;   // of decoder_
    std::optional<ctf::PacketDecoder> decoder_;
    TracerQuirks quirks_{};
    ctf::PacketProperties properties_{};
    bool has_missed_files_ = false;
    std::uint64_t lost_told_ = 0;                      // packets that the network lost
    bool is_late_ = false;                             // the packet that is read, or begins next
    bool is_in_packet_ = false;                        // begun and not ended yet
    std::optional<ctf::PacketProperties> previous_{};  // of the previous packet
    std::optional<std::int64_t> last_ns_{};            // time of the last event, or of the packet's begin
    std::deque<Message> queue_;                        // told before anything else is read
    Message message_;
    PacketView packet_;
    std::vector<ctf::EventPlace> places_;  // and three behind the last
    std::size_t place_count_ = 0;
    std::size_t next_place_ = 0;
};

}  // namespace leat::viewer
