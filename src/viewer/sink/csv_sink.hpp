#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"
#include "viewer/filter/filter_expression.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/event_decoder.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_options.hpp"
#include "viewer/sink/time_text.hpp"

namespace leat::viewer {

// A table of events (RFC 4180, but with "\n"): a row for each, and a column for each field. Empty: the event has no
// such field.
class CsvSink {
  public:
    // Columns as a filter names fields, with commas between them: "time,name,$ctx.cpu_id,key"; "time" and "time_ns" are
    // those of the event. None: these two, the name, and all contexts and fields that the trace classes have. An error
    // names one that no event can have.
    static Result<CsvSink> make(std::optional<std::string_view> columns,
                                std::span<const ctf::TraceClass* const> trace_classes);

    void append_header(TextBuffer& buffer) const;
    Result<void> append(TextBuffer& buffer, const PacketView& packet, const ctf::EventPlace& place);

  private:
    struct Column {
        enum class Kind : std::uint8_t { kTime, kTimeNs, kName, kLogLevel, kPayload, kContext };

        std::string title{};
        Kind kind = Kind::kPayload;
        ValuePath path{};
    };

    CsvSink() : time_text_({.time_format = TimeFormat::kIso, .is_gmt = true}) {}

    static std::vector<Column> all_columns(std::span<const ctf::TraceClass* const> trace_classes);
    static Result<Column> parse_column(std::string_view text, std::span<const ctf::TraceClass* const> trace_classes);
    void find_members(const PacketView& packet, const ctf::EventPlace& place, const ctf::EventRecord& event);
    void append_cell(TextBuffer& buffer, const Column& column, std::size_t number, const PacketView& packet,
                     const ctf::EventRecord& event);

    std::vector<Column> columns_{};
    EventDecoder decoder_{};
    // Of each event class, by the numbers of plan and event: for each column, which member it shows.
    static constexpr std::uint32_t kNoMember = ~std::uint32_t{0};
    static constexpr std::uint32_t kOfPacket = std::uint32_t{1} << 31;
    std::unordered_map<std::uint64_t, std::vector<std::vector<std::uint32_t>>> members_of_columns_{};
    struct PacketMembers {
        std::uint64_t packet = 0;
        std::vector<const ctf::FieldValue*> members{};
    };
    std::unordered_map<const StreamIdentity*, PacketMembers> packets_{};  // the latest of each stream
    // Of the event that is written.
    const std::vector<const ctf::FieldValue*>* packet_members_ = nullptr;
    std::vector<const ctf::FieldValue*> members_{};
    std::vector<std::uint32_t>* member_of_column_ = nullptr;
    TimeText time_text_;
};

}  // namespace leat::viewer
