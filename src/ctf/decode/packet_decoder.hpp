#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/decode/decode_plan.hpp"
#include "ctf/decode/event_place.hpp"
#include "ctf/decode/event_record.hpp"
#include "ctf/decode/field_decoder.hpp"
#include "ctf/model/clock.hpp"

namespace leat::ctf {

// What the header and the context of a packet state. The content may end within a byte, and is not larger
// than the packet.
struct PacketProperties {
    std::uint64_t packet_size = 0;  // bytes
    std::uint64_t content_bits = 0;
    std::optional<std::uint64_t> stream_instance_id{};
    std::optional<std::uint64_t> sequence_number{};
    std::optional<std::uint64_t> events_discarded{};  // since the stream began
    std::optional<std::uint64_t> end_cycles{};
    std::optional<std::int64_t> begin_ns{};
    std::optional<std::int64_t> end_ns{};
};

// Decodes the packets of one stream class, event by event.
//
//     LEAT_TRY(decoder.start(bytes, offset));
//     while (LEAT_TRY(decoder.next())) use(decoder.record());
class PacketDecoder {
  public:
    // The plan must outlive the decoder.
    explicit PacketDecoder(const DecodePlan& plan);

    // Reads the header and the context of the packet at the start of `bytes`, the rest of a file. `offset` is its place
    // in the file, for messages. A packet that claims to be larger than the rest is cut short; then neither next()
    // nor locate() may be called.
    Result<PacketProperties> start(UntrustedBytes bytes, std::uint64_t offset);

    // start() in two steps, for a caller that does not know the packet's stream class. All classes of a trace share one
    // packet header, so any decoder of the trace reads the stream id, if there is one; only the right one may go on.
    Result<std::optional<std::uint64_t>> start_header(UntrustedBytes bytes, std::uint64_t offset);
    Result<PacketProperties> start_context();

    // What narrow timestamps go on from: the time that was read last. To be set before a packet is started.
    [[nodiscard]] std::uint64_t clock() const { return decoder_.clock(); }
    void set_clock(std::uint64_t cycles) { decoder_.set_clock(cycles); }

    // Of the packet: what people see of it.
    [[nodiscard]] std::span<const FieldValue> packet_context() const { return packet_context_; }

    // Goes to the next event of the packet; false at its end.
    Result<bool> next();
    [[nodiscard]] const EventRecord& record() const { return record_; }

    // Finds the next events of the packet, as many as there are places, without decoding them; 0 at its end. An error
    // belongs to the event after those that were found by then, and comes again if it is called again. Not to be mixed
    // with next() in one packet.
    Result<std::size_t> locate(std::span<EventPlace> places);
    // Decodes an event that was found in this packet: afterwards it is the record.
    Result<void> decode(const EventPlace& place);
    // The same, but its fields are only stepped over: the record may have none.
    Result<void> decode_contexts(const EventPlace& place);
    // Bits from the packet's begin: behind what was read last.
    [[nodiscard]] std::uint64_t position() const { return decoder_.position(); }
    // The record ends.
    void give_back_memory() {
        give_back_large(values_);
        decoder_.forget_texts(texts_of_packet_);
    }

  private:
    Result<void> header();
    Result<PacketProperties> properties() const;
    tl::unexpected<Error> packet_error(Error error) const;
    [[nodiscard]] std::optional<std::uint64_t> end_cycles() const;
    Result<std::optional<std::int64_t>> time_of(std::optional<std::uint64_t> cycles) const;
    Result<void> event();
    void fill_record();
    Result<const EventPlan*> event_plan() const;
    bool locate(EventPlace& place);
    std::size_t locate_plain(std::span<EventPlace> places);
    Result<void> scope(PlanRoot root, std::size_t index);

    const DecodePlan* plan_;
    std::optional<Clock> clock_;
    FieldDecoder decoder_;
    std::uint64_t offset_ = 0;
    std::uint64_t rest_size_ = 0;  // bytes, from the packet's begin to the end of the file
    EventRecord record_;
    const EventPlan* event_ = nullptr;  // of the record
    std::uint64_t payload_ = 0;         // bits: where it begins after its header
    std::vector<FieldValue> packet_context_;
    std::vector<FieldValue> values_;           // of the event's scopes, one after the other
    std::size_t texts_of_packet_ = 0;          // how many of the decoder's belong to packet_context_
    std::array<std::size_t, 4> scope_ends_{};  // in values_
};

}  // namespace leat::ctf
