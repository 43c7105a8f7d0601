#include "viewer/sink/csv_sink.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/utf8.hpp"
#include "viewer/filter/event_expression.hpp"
#include "viewer/sink/field_json.hpp"
#include "viewer/sink/found_labels.hpp"

namespace leat::viewer {
namespace {

void append_csv_text(TextBuffer& buffer, std::string_view bytes) {
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
    append_json(json, {value, next_sibling(value)});
    const bool is_quoted = json.text().starts_with('"');  // "NaN"
    append_csv_text(buffer, is_quoted ? json.text().substr(1, json.text().size() - 2) : json.text());
}

void append_environment(TextBuffer& buffer, const FilterValue& value) {
    if (value.kind == FilterValue::Kind::kText) append_csv_text(buffer, value.plain);
    if (value.kind == FilterValue::Kind::kInteger) buffer.append_number(value.integer);
}

// Names in the order in which they come, each once.
class Names {
  public:
    // What people see of the scope.
    void add(const std::optional<ctf::StructClass>& scope, bool is_packet) {
        if (!scope) return;
        for (const ctf::StructMember& member : scope->members) {
            const std::string_view name = ctf::display_name(member);
            if (!(is_packet && is_for_readers(member)) && known_.emplace(name).second) names_.emplace_back(name);
        }
    }
    [[nodiscard]] const std::vector<std::string>& all() const { return names_; }
    [[nodiscard]] bool contains(const std::string& name) const { return known_.contains(name); }

  private:
    std::vector<std::string> names_{};
    std::set<std::string, std::less<>> known_{};
};

void append_members(std::vector<const ctf::FieldValue*>& members, std::span<const ctf::FieldValue> scope) {
    if (scope.empty()) return;
    const ctf::FieldValue* part = scope.data() + 1;
    for (std::uint32_t i = 0; i < scope.front().size; ++i, part = next_sibling(part)) members.push_back(part);
}

}  // namespace

std::vector<CsvSink::Column> CsvSink::all_columns(std::span<const ctf::TraceClass* const> trace_classes) {
    Names contexts;
    Names fields;
    for (const ctf::TraceClass* trace_class : trace_classes)
        for (const ctf::StreamClass& stream : trace_class->streams) {
            contexts.add(stream.packet_context, true);
            contexts.add(stream.event_context, false);
            for (const ctf::EventClass& event : stream.events) {
                contexts.add(event.context, false);
                fields.add(event.fields, false);
            }
        }
    using Kind = Column::Kind;
    std::vector<Column> columns{{"time", Kind::kTime}, {"time_ns", Kind::kTimeNs}, {"name", Kind::kName}};
    const std::set<std::string> taken{"time", "time_ns", "name"};
    for (const std::string& name : contexts.all()) {
        const bool is_clear = !taken.contains(name) && !fields.contains(name);
        columns.push_back({is_clear ? name : "$ctx." + name, Kind::kContext, {name}});
    }
    for (const std::string& name : fields.all())
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

Result<CsvSink> CsvSink::make(std::optional<std::string_view> columns,
                              std::span<const ctf::TraceClass* const> trace_classes) {
    CsvSink sink;
    if (!columns) {
        sink.columns_ = all_columns(trace_classes);
        return sink;
    }
    for (std::string_view rest = *columns;;) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        sink.columns_.push_back(LEAT_TRY(parse_column(rest.substr(0, comma), trace_classes)));
        if (comma == rest.size()) return sink;
        rest.remove_prefix(comma + 1);
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
    find_members(packet, place, event);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (i != 0) buffer.append(',');
        const std::size_t begin = buffer.text().size();
        append_cell(buffer, columns_[i], i, packet, event);
        // A line of nothing is no row for many readers.
        if (columns_.size() == 1 && buffer.text().size() == begin) buffer.append("\"\"");
    }
    buffer.append('\n');
    return {};
}

// Where the members of all scopes are, and which of them the columns want: the same in all events of a class.
void CsvSink::find_members(const PacketView& packet, const ctf::EventPlace& place, const ctf::EventRecord& event) {
    PacketMembers& of_packet = packets_[packet.stream];
    if (of_packet.packet != packet.number) {
        of_packet = {.packet = packet.number};
        append_members(of_packet.members, event.packet_context);
    }
    packet_members_ = &of_packet.members;
    members_.clear();
    append_members(members_, event.event_context);
    append_members(members_, event.context);
    const std::size_t first_field = members_.size();
    append_members(members_, event.fields);

    auto& classes = members_of_columns_[packet.plan->number];
    if (classes.size() < packet.plan->events.size()) classes.resize(packet.plan->events.size());
    member_of_column_ = &classes[place.event];
    if (!member_of_column_->empty()) return;
    std::map<std::string_view, std::uint32_t> contexts;
    std::map<std::string_view, std::uint32_t> fields;
    for (std::uint32_t i = 0; i < packet_members_->size(); ++i)
        contexts.emplace((*packet_members_)[i]->name, i | kOfPacket);
    for (std::uint32_t i = 0; i < members_.size(); ++i)
        (i < first_field ? contexts : fields).emplace(members_[i]->name, i);
    for (const Column& column : columns_) {
        const auto& named = column.kind == Column::Kind::kPayload ? fields : contexts;
        const auto* const name = column.path.empty() ? nullptr : std::get_if<std::string>(&column.path.front());
        const auto known = name == nullptr ? named.end() : named.find(*name);
        member_of_column_->push_back(known == named.end() ? kNoMember : known->second);
    }
}

void CsvSink::append_cell(TextBuffer& buffer, const Column& column, std::size_t number, const PacketView& packet,
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
        case Column::Kind::kContext:
            break;
    }
    const std::uint32_t member = (*member_of_column_)[number];
    const auto& members = (member & kOfPacket) != 0 ? *packet_members_ : members_;
    if (member != kNoMember)
        append_value(buffer, find_part(members[member & ~kOfPacket], ValuePathView(column.path).subspan(1)));
    else if (column.kind == Column::Kind::kContext)
        append_environment(buffer, environment_value(*packet.trace_class, column.path));
}

}  // namespace leat::viewer
