#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/decode/decode_plan.hpp"
#include "ctf/decode/event_record.hpp"
#include "ctf/decode/field_decoder.hpp"
#include "ctf/model/clock.hpp"

namespace leat::ctf {

// What the header and the context of a packet state. Sizes are whole bytes, and content_size <= packet_size.
struct PacketProperties {
    std::uint64_t packet_size = 0;
    std::uint64_t content_size = 0;
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
    // in the file, for messages. A packet that claims to be larger than the rest is cut short; then next() must not be
    // called.
    Result<PacketProperties> start(UntrustedBytes bytes, std::uint64_t offset);

    // start() in two steps, for a caller that does not know the packet's stream class. All classes of a trace share one
    // packet header, so any decoder of the trace reads the stream id, if there is one; only the right one may go on.
    Result<std::optional<std::uint64_t>> start_header(UntrustedBytes bytes, std::uint64_t offset);
    Result<PacketProperties> start_context();

    // Goes to the next event of the packet; false at its end.
    Result<bool> next();
    [[nodiscard]] const EventRecord& record() const { return record_; }

  private:
    Result<void> header();
    Result<PacketProperties> properties() const;
    tl::unexpected<Error> packet_error(Error error) const;
    Result<std::uint64_t> size_of_role(FieldRole role, std::uint64_t otherwise) const;
    Result<std::optional<std::int64_t>> time_of(std::optional<std::uint64_t> cycles) const;
    Result<void> event();
    Result<const EventPlan*> event_plan() const;
    Result<void> scope(PlanRoot root, std::size_t index);

    const DecodePlan* plan_;
    std::optional<Clock> clock_;
    FieldDecoder decoder_;
    std::uint64_t offset_ = 0;
    std::uint64_t rest_size_ = 0;  // bytes, from the packet's begin to the end of the file
    EventRecord record_;
    std::vector<FieldValue> packet_context_;
    std::vector<FieldValue> values_;           // of the event's scopes, one after the other
    std::array<std::size_t, 4> scope_ends_{};  // in values_
};

}  // namespace leat::ctf
