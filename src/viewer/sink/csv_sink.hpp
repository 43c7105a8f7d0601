#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "ctf/model/trace_class.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/sink/event_table.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_options.hpp"
#include "viewer/sink/time_text.hpp"

namespace leat::viewer {

// A table of events as text (RFC 4180, but with "\n"). Empty: the event has no such field.
class CsvSink {
  public:
    // Columns as those of EventTable, with commas between them.
    static Result<CsvSink> make(std::optional<std::string_view> columns,
                                std::span<const ctf::TraceClass* const> trace_classes);

    void append_header(TextBuffer& buffer) const;
    Result<void> append(TextBuffer& buffer, const PacketView& packet, const ctf::EventPlace& place);

  private:
    explicit CsvSink(EventTable table)
        : table_(std::move(table)), time_text_({.time_format = TimeFormat::kIso, .is_gmt = true}) {}

    void append_cell(TextBuffer& buffer, std::size_t number);

    EventTable table_;
    TimeText time_text_;
    TextBuffer scratch_{-1};
};

}  // namespace leat::viewer
