#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
    static Result<CsvSink> make(std::string_view columns, std::span<const ctf::TraceClass* const> trace_classes);

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
    void append_cell(TextBuffer& buffer, const Column& column, const PacketView& packet, const ctf::EventRecord& event);

    std::vector<Column> columns_{};
    EventDecoder decoder_{};
    TimeText time_text_;
};

}  // namespace leat::viewer
