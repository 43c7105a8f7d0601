#include "viewer/sink/csv_sink.hpp"

#include <algorithm>
#include <vector>

#include "base/utf8.hpp"

namespace leat::viewer {
namespace {

// Whether all is ASCII that stands for itself. Most cells are.
bool is_plain(std::string_view text) {
    bool is_special = false;
    for (const char c : text) is_special |= c < 0x20 || c == ',' || c == '"';  // what is not ASCII is negative
    return !is_special;
}

void append_csv_text(TextBuffer& buffer, std::string_view bytes) {
    if (is_plain(bytes)) return buffer.append(bytes);
    const std::string clean = to_utf8(bytes);
    std::string_view text = clean;
    if (text.find_first_of(",\"\n\r") == std::string_view::npos) return buffer.append(text);
    buffer.append('"');
    while (!text.empty()) {
        const std::size_t size = std::min(text.find('"'), text.size() - 1) + 1;
        buffer.append(text.substr(0, size));
        if (text[size - 1] == '"') buffer.append('"');
        text.remove_prefix(size);
    }
    buffer.append('"');
}

}  // namespace

Result<CsvSink> CsvSink::make(std::optional<std::string_view> columns,
                              std::span<const ctf::TraceClass* const> trace_classes) {
    if (!columns) return CsvSink(LEAT_TRY(EventTable::make({}, trace_classes)));
    return CsvSink(LEAT_TRY(EventTable::make(split_titles(*columns), trace_classes)));
}

void CsvSink::append_header(TextBuffer& buffer) const {
    for (const EventTable::Column& column : table_.columns()) {
        if (&column != table_.columns().data()) buffer.append(',');
        append_csv_text(buffer, column.title);
    }
    buffer.append('\n');
}

Result<void> CsvSink::append(TextBuffer& buffer, const PacketView& packet, const ctf::EventPlace& place) {
    LEAT_TRY(table_.go_to(packet, place));
    const std::size_t count = table_.columns().size();
    for (std::size_t i = 0; i < count; ++i) {
        if (i != 0) buffer.append(',');
        const std::size_t begin = buffer.text().size();
        append_cell(buffer, i);
        // A line of nothing is no row for many readers.
        if (count == 1 && buffer.text().size() == begin) buffer.append("\"\"");
    }
    buffer.append('\n');
    return {};
}

void CsvSink::append_cell(TextBuffer& buffer, std::size_t number) {
    using Kind = EventTable::Column::Kind;
    switch (table_.columns()[number].kind) {
        case Kind::kTime:
            if (!table_.time_ns()) return;
            time_text_.append(buffer, *table_.time_ns());
            return buffer.append('Z');
        case Kind::kTimeNs:
            if (table_.time_ns()) buffer.append_number(*table_.time_ns());
            return;
        case Kind::kName:
            return append_csv_text(buffer, table_.event_class().name);
        case Kind::kLogLevel:
            if (table_.event_class().log_level) buffer.append_number(*table_.event_class().log_level);
            return;
        case Kind::kPayload:
        case Kind::kContext:
            break;
    }
    append_csv_text(buffer, EventTable::text_of(table_.cell(number), scratch_));
}

}  // namespace leat::viewer
