#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "ctf/decode/decode_plan.hpp"
#include "ctf/decode/event_record.hpp"
#include "ctf/decode/field_decoder.hpp"
#include "ctf/model/trace_class.hpp"
#include "viewer/filter/event_expression.hpp"
#include "viewer/filter/filter_value.hpp"
#include "viewer/filter/value_path.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/event_decoder.hpp"
#include "viewer/sink/text_buffer.hpp"

namespace leat::viewer {

// Of columns, with commas between them.
std::vector<std::string_view> split_titles(std::string_view titles);

// A table of events: a row for each, and a column for each field. Of recorded traces: their plans do not grow.
class EventTable {
  public:
    struct Column {
        enum class Kind : std::uint8_t { kTime, kTimeNs, kName, kLogLevel, kPayload, kContext };

        std::string title{};
        Kind kind = Kind::kPayload;
        ValuePath path{};  // of kPayload and kContext
    };

    // Columns by the titles that they have if all are there, or as a filter names fields: "time", "name",
    // "$ctx.cpu_id", "key"; "time" and "time_ns" are those of the event. None: these two, the name, and all contexts
    // and fields that the trace classes have. An error names one that no event can have.
    static Result<EventTable> make(std::optional<std::span<const std::string_view>> titles,
                                   std::span<const ctf::TraceClass* const> trace_classes);

    [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
    // Before the first row.
    void leave_out(Column::Kind kind) {
        std::erase_if(columns_, [kind](const Column& column) { return column.kind == kind; });
    }

    // Goes to the row of this event; both stay where they are meanwhile. An error: its bytes are not those any more in
    // which it was found.
    Result<void> go_to(const PacketView& packet, const ctf::EventPlace& place);

    // Of the row; valid until the next.
    [[nodiscard]] const ctf::EventClass& event_class() const {
        return *of_packet_->plan->events[place_->event].event_class;
    }
    [[nodiscard]] std::optional<std::int64_t> time_ns() const {
        return of_packet_->plan->clock == nullptr ? std::nullopt : std::optional(place_->time_ns);
    }
    // Of a column of kPayload or kContext: a field, or a value of the trace's environment, or neither if the event has
    // no such field.
    struct Cell {
        const ctf::FieldValue* field = nullptr;
        FilterValue environment{};
    };
    [[nodiscard]] Cell cell(std::size_t number) const;
    // What people read there: the label of an enum, if it has one; what has parts is JSON. Valid until the next row,
    // and as long as `scratch` stays as it is.
    static std::string_view text_of(const Cell& cell, TextBuffer& scratch);

  private:
    EventTable() = default;

    static std::vector<Column> all_columns(std::span<const ctf::TraceClass* const> trace_classes);
    static Result<Column> parse_column(std::string_view text, std::span<const ctf::TraceClass* const> trace_classes);
    // Where a column's field of an event lies: in the values of its scopes, in those of its packet, or nowhere; or it
    // is read right from the bytes.
    static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
    static constexpr std::uint32_t kInBytes = kNowhere - 1;
    static constexpr std::uint32_t kOfPacket = std::uint32_t{1} << 31;
    // A number or a text, in a step of a layout.
    struct PlacedField {
        std::uint32_t step;
        std::uint32_t offset;  // bits, from the begin of the step
        std::uint32_t column;
        std::uint32_t node;
    };
    // How to get the row of an event class.
    struct ClassRow {
        std::vector<std::uint32_t> places{};        // of each column
        bool is_placed = false;                     // nothing has to be decoded but these:
        std::vector<PlacedField> context_fields{};  // of the stream's event context
        std::vector<PlacedField> fields{};          // of the event's context and payload
    };
    // Of a stream class.
    struct PlanRows {
        explicit PlanRows(const ctf::DecodePlan& plan) : decoder(plan) {}

        std::vector<ClassRow> classes{};
        ctf::FieldDecoder decoder;
        std::uint64_t packet = 0;  // that the decoder is in
    };

    PlanRows& rows_of(const PacketView& packet);
    void forget_rows();
    [[nodiscard]] ClassRow make_row(const ctf::DecodePlan& plan, const ctf::EventPlan& event) const;
    [[nodiscard]] bool read_placed(PlanRows& rows, const ClassRow& row, const PacketView& packet,
                                   const ctf::EventPlace& place);
    [[nodiscard]] bool read_placed(ctf::FieldDecoder& decoder, const ctf::EventLayout& layout,
                                   std::span<const PlacedField> fields);
    void find_members(const ctf::EventRecord& event);

    std::vector<Column> columns_{};
    std::unordered_map<std::uint64_t, std::unique_ptr<PlanRows>> plans_{};  // by their numbers
    std::uint64_t plan_ = 0;                                                // the latest
    PlanRows* rows_ = nullptr;                                              // its
    std::size_t places_ = 0;                                                // in all rows
    EventDecoder decoder_{};
    std::uint64_t packet_ = 0;  // whose context these are
    std::vector<const ctf::FieldValue*> packet_members_{};
    // Of the row.
    const PacketView* of_packet_ = nullptr;
    const ctf::EventPlace* place_ = nullptr;
    const ClassRow* row_ = nullptr;
    std::vector<const ctf::FieldValue*> members_{};  // where the event was decoded
    std::vector<ctf::FieldValue> placed_{};          // where it was not: by column
};

}  // namespace leat::viewer
