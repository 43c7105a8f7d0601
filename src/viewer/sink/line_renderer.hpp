#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "ctf/decode/field_decoder.hpp"
#include "ctf/decode/field_value.hpp"
#include "ctf/decode/packet_decoder.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/event_decoder.hpp"
#include "viewer/read/recent_packets.hpp"
#include "viewer/sink/line_program.hpp"
#include "viewer/sink/padded_text.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_options.hpp"
#include "viewer/sink/time_text.hpp"

namespace leat::viewer {

// When an event happened.
struct Moment {
    std::int64_t time_ns = 0;
    std::uint64_t cycles = 0;
};

// Makes lines of events: text, byte for byte that of babeltrace2 ([babeltrace-2.0]), or JSON. Each thread has its own.
class LineRenderer {
  public:
    explicit LineRenderer(const TextOptions& options);

    // Appends the line of an event. `previous`: of the event before, if there was one that had a time.
    // Classes and plan must outlive this object; the plan may have grown since the last call. An error: the bytes are
    // not those any more in which the event was found. Then nothing is appended.
    Result<void> append(TextBuffer& buffer, const PacketView& packet, const ctf::EventPlace& place,
                        const std::optional<Moment>& previous);
    // The same, but the caller asks whether the packet is whole, before he uses the line.
    Result<void> append_unchecked(TextBuffer& buffer, const PacketView& packet, const ctf::EventPlace& place,
                                  const std::optional<Moment>& previous);

  private:
    // The part of a line that is the same for all events of a trace.
    struct Head {
        std::string text{};
        bool has_fields = false;
    };
    // What is kept of a stream's plan: the lines of its events, and its latest packet.
    struct PlanState {
        PlanState(const ctf::DecodePlan& plan, const Head& head_of_trace, LineProgram program_of_context)
            : head(head_of_trace.text),
              has_head_fields(head_of_trace.has_fields),
              context_program(std::move(program_of_context)),
              decoder(plan) {}

        PaddedText head;
        bool has_head_fields;
        LineProgram context_program;
        std::vector<std::unique_ptr<const LineProgram>> programs{};  // by the number of the event
        ctf::FieldDecoder decoder;
        std::uint64_t packet = 0;  // that `decoder` is in
    };
    struct Context {
        std::uint64_t packet = 0;
        PaddedText text{};
    };
    // Of a packet: what its events' lines need.
    struct Entered {
        PlanState* state = nullptr;
        const Context* context = nullptr;  // perhaps of a later packet by now
        ShortText context_text{};          // if it is short: of this packet
    };

    PlanState& enter(const PacketView& packet);
    PlanState& state_of(const PacketView& packet);
    Result<const Context*> context_of(const PacketView& packet);
    const LineProgram& program_of(PlanState& state, const PacketView& packet, std::uint32_t event);
    void add_head_field(Head& head, std::string_view name, std::string_view value) const;
    [[nodiscard]] Head head_of(const PacketView& packet) const;
    [[nodiscard]] static std::string json_head_of(const PacketView& packet);
    [[nodiscard]] static std::string json_name_of(const ctf::EventClass& event_class);
    [[nodiscard]] std::string name_of(const PlanState& state, const ctf::EventClass& event_class) const;
    void begin_json(TextBuffer& buffer, const PacketView& packet, const Moment& moment);
    void append_values(TextBuffer& buffer, std::span<const ctf::FieldValue> values, bool has_names) const;
    void append_string(TextBuffer& buffer, std::string_view text) const;
    void times(TextBuffer& buffer, const Moment& moment, const std::optional<Moment>& previous);
    [[nodiscard]] std::string header_name(std::string_view name) const;
    char* write_delta(char* at, const Moment& moment, const std::optional<Moment>& previous) const;
    Result<void> fields(TextBuffer& buffer, PlanState& state, const PacketView& packet, const ctf::EventPlace& place);
    Result<void> carry_out(const LineProgram& program, const ctf::EventLayout& layout, TextBuffer& buffer,
                           PlanState& state, const PacketView& packet);
    Result<void> carry_out(const LineOp& op, const ctf::EventLayout& layout, std::size_t& step, TextBuffer& buffer,
                           PlanState& state, const PacketView& packet);
    void array(const LineOp& op, TextBuffer& buffer, const PacketView& packet, const ctf::FieldDecoder& decoder,
               std::uint64_t begin, std::uint64_t length);
    Result<void> packet_context(TextBuffer& buffer, const PacketView& packet);
    Result<void> decoded(TextBuffer& buffer, PlanState& state, const PacketView& packet, const ctf::EventPlace& place);
    [[nodiscard]] std::string_view name_or(std::string_view name, std::string_view otherwise) const {
        return options_.names_header ? name : otherwise;
    }

    TextOptions options_;
    bool is_json_;
    TimeText time_text_;
    // What stands around the time and the time since the event before.
    PaddedText before_time_;
    PaddedText behind_time_;
    PaddedText behind_delta_;
    std::unordered_map<std::uint64_t, std::unique_ptr<PlanState>> plans_;  // by their numbers
    std::unordered_map<const StreamIdentity*, Context> contexts_;          // of the latest packet of each
    RecentPackets<Entered> recent_;
    Entered* entered_ = nullptr;  // the latest
    std::vector<ctf::FieldValue> values_;
    EventDecoder decoder_;  // of contexts of packets, and of events that cannot do without their packet
};

}  // namespace leat::viewer
