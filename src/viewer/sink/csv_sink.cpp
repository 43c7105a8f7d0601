#include "viewer/sink/csv_sink.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "viewer/filter/event_expression.hpp"
#include "viewer/sink/field_json.hpp"
#include "viewer/sink/found_labels.hpp"

namespace leat::viewer {
namespace {

void append_csv_text(TextBuffer& buffer, std::string_view text) {
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

// The value and its parts.
std::span<const ctf::FieldValue> whole(const ctf::FieldValue* value) {
    const ctf::FieldValue* end = value;
    for (std::uint64_t parts = 1; parts > 0; --parts, ++end) parts += end->is_text ? 0 : end->size;
    return {value, end};
}

void append_value(TextBuffer& buffer, const ctf::FieldValue* value) {
    if (value == nullptr) return;
    if (value->is_text) return append_csv_text(buffer, {value->text, value->size});
    if (value->field_class != nullptr) {
        if (const auto* enumeration = value->field_class->as<ctf::EnumClass>()) {
            const FoundLabels found(value->number, *enumeration);
            if (found.labels().size() == 1)
                return append_csv_text(buffer, enumeration->ranges[found.labels().front()].label);
            return enumeration->container.is_signed ? buffer.append_number(static_cast<std::int64_t>(value->number))
                                                    : buffer.append_number(value->number);
        }
    }
    // Numbers are the same in JSON; what has parts is a text of JSON.
    TextBuffer json(-1);
    append_json(json, whole(value));
    const bool is_quoted = json.text().starts_with('"');  // "NaN"
    append_csv_text(buffer, is_quoted ? json.text().substr(1, json.text().size() - 2) : json.text());
}

void append_environment(TextBuffer& buffer, const FilterValue& value) {
    if (value.kind == FilterValue::Kind::kText) append_csv_text(buffer, value.plain);
    if (value.kind == FilterValue::Kind::kInteger) buffer.append_number(value.integer);
}

// What people see of the scope.
void add_members(std::vector<std::string>& names, const std::optional<ctf::StructClass>& scope, bool is_packet) {
    if (!scope) return;
    for (const ctf::StructMember& member : scope->members) {
        const std::string_view name = ctf::display_name(member);
        const bool is_hidden = is_packet && is_for_readers(member);
        if (!is_hidden && std::ranges::find(names, name) == names.end()) names.emplace_back(name);
    }
}

}  // namespace

std::vector<CsvSink::Column> CsvSink::all_columns(std::span<const ctf::TraceClass* const> trace_classes) {
    std::vector<std::string> contexts;
    std::vector<std::string> fields;
    for (const ctf::TraceClass* trace_class : trace_classes)
        for (const ctf::StreamClass& stream : trace_class->streams) {
            add_members(contexts, stream.packet_context, true);
            add_members(contexts, stream.event_context, false);
            for (const ctf::EventClass& event : stream.events) {
                add_members(contexts, event.context, false);
                add_members(fields, event.fields, false);
            }
        }
    using Kind = Column::Kind;
    std::vector<Column> columns{{"time", Kind::kTime}, {"time_ns", Kind::kTimeNs}, {"name", Kind::kName}};
    const std::set<std::string> taken{"time", "time_ns", "name"};
    for (const std::string& name : contexts) {
        const bool is_clear = !taken.contains(name) && std::ranges::find(fields, name) == fields.end();
        columns.push_back({is_clear ? name : "$ctx." + name, Kind::kContext, {name}});
    }
    for (const std::string& name : fields)
        columns.push_back({taken.contains(name) ? "payload." + name : name, Kind::kPayload, {name}});
    return columns;
}

Result<CsvSink::Column> CsvSink::parse_column(std::string_view text,
                                              std::span<const ctf::TraceClass* const> trace_classes) {
    using Kind = Column::Kind;
    const std::string title(text);
    if (text == "time") return Column{title, Kind::kTime};
    if (text == "time_ns") return Column{title, Kind::kTimeNs};
    if (text == "name") return Column{title, Kind::kName};
    if (text == "log_level") return Column{title, Kind::kLogLevel};
    const bool is_payload = text.starts_with("payload.");
    const bool is_context = text.starts_with("$ctx.");
    const std::string_view bare = text.substr(is_payload ? 8 : is_context ? 5 : 0);
    const auto path_of = [&](const std::string& field) -> std::optional<ValuePath> {
        auto expression = parse_filter(field);
        if (!expression || expression->nodes.size() != 1 || expression->fields.size() != 1) return std::nullopt;
        ValuePath path = expression->fields.front().path;
        if (path.empty() || !EventExpression(*std::move(expression)).check(trace_classes)) return std::nullopt;
        return path;
    };
    if (auto path = is_context ? std::nullopt : path_of(std::string(bare)))
        return Column{title, Kind::kPayload, *std::move(path)};
    if (auto path = is_payload ? std::nullopt : path_of(fmt::format("$ctx.{}", bare)))
        return Column{title, Kind::kContext, *std::move(path)};
    return not_found("column \"{}\": no event has such a field or context", text);
}

Result<CsvSink> CsvSink::make(std::string_view columns, std::span<const ctf::TraceClass* const> trace_classes) {
    CsvSink sink;
    if (columns.empty()) {
        sink.columns_ = all_columns(trace_classes);
        return sink;
    }
    while (true) {
        const std::size_t comma = std::min(columns.find(','), columns.size());
        sink.columns_.push_back(LEAT_TRY(parse_column(columns.substr(0, comma), trace_classes)));
        if (comma == columns.size()) return sink;
        columns.remove_prefix(comma + 1);
    }
}

void CsvSink::append_header(TextBuffer& buffer) const {
    for (const Column& column : columns_) {
        if (&column != columns_.data()) buffer.append(',');
        append_csv_text(buffer, column.title);
    }
    buffer.append('\n');
}

Result<void> CsvSink::append(TextBuffer& buffer, const PacketView& packet, const ctf::EventPlace& place) {
    const ctf::EventRecord& event = *LEAT_TRY(decoder_.decode(packet, place));
    for (const Column& column : columns_) {
        if (&column != columns_.data()) buffer.append(',');
        append_cell(buffer, column, packet, event);
    }
    buffer.append('\n');
    return {};
}

void CsvSink::append_cell(TextBuffer& buffer, const Column& column, const PacketView& packet,
                          const ctf::EventRecord& event) {
    switch (column.kind) {
        case Column::Kind::kTime:
            if (!event.time_ns) return;
            time_text_.append(buffer, *event.time_ns);
            return buffer.append('Z');
        case Column::Kind::kTimeNs:
            if (event.time_ns) buffer.append_number(*event.time_ns);
            return;
        case Column::Kind::kName:
            return append_csv_text(buffer, event.event_class->name);
        case Column::Kind::kLogLevel:
            if (event.event_class->log_level) buffer.append_number(*event.event_class->log_level);
            return;
        case Column::Kind::kPayload:
            return append_value(buffer, find_value(event.fields, column.path));
        case Column::Kind::kContext:
            for (const auto scope : {event.packet_context, event.event_context, event.context})
                if (const ctf::FieldValue* const value = find_value(scope, column.path))
                    return append_value(buffer, value);
            return append_environment(buffer, environment_value(*packet.trace_class, column.path));
    }
}

}  // namespace leat::viewer
