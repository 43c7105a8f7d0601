#include "viewer/sink/event_table.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "viewer/filter/filter_expression.hpp"
#include "viewer/sink/field_json.hpp"
#include "viewer/sink/found_labels.hpp"

namespace leat::viewer {
namespace {

// Names in the order in which they come, each once.
class Names {
  public:
    // What people see of the scope.
    void add(const std::optional<ctf::StructClass>& scope) {
        add_but(scope, [](const ctf::StructMember& member) { return is_timestamp(member.field_class); });
    }
    void add_packet_context(const ctf::TraceClass& trace_class, const ctf::StreamClass& stream) {
        add_but(stream.packet_context,
                [&](const ctf::StructMember& member) { return is_for_readers(trace_class, member); });
    }
    [[nodiscard]] const std::vector<std::string>& all() const { return names_; }
    [[nodiscard]] bool contains(const std::string& name) const { return known_.contains(name); }

  private:
    void add_but(const std::optional<ctf::StructClass>& scope, const auto& is_hidden) {
        if (!scope) return;
        for (const ctf::StructMember& member : scope->members) {
            const std::string_view name = ctf::display_name(member);
            if (is_hidden(member)) continue;
            if (known_.emplace(name).second) names_.emplace_back(name);
        }
    }

    std::vector<std::string> names_{};
    std::set<std::string, std::less<>> known_{};
};

void append_members(std::vector<const ctf::FieldValue*>& members, std::span<const ctf::FieldValue> scope) {
    if (scope.empty()) return;
    const ctf::FieldValue* part = scope.data() + 1;
    for (std::uint32_t i = 0; i < scope.front().size; ++i, part = next_sibling(part)) members.push_back(part);
}

// Of what may grow as long as the program runs; what is forgotten is made anew.
constexpr std::size_t kMaxPlanRows = 4096;
constexpr std::size_t kMaxPlaces = 4U << 20U;  // in all rows of classes

// Of a scope, the nodes of what people see.
std::vector<std::uint32_t> shown_members(const ctf::DecodePlan& plan, ctf::PlanRoot scope) {
    std::vector<std::uint32_t> shown;
    if (!scope || !plan.nodes[*scope].is_shown) return shown;
    const ctf::PlanNode& root = plan.nodes[*scope];
    for (std::uint32_t i = root.first_child; i < root.first_child + root.child_count; ++i)
        if (plan.nodes[i].is_shown) shown.push_back(i);
    return shown;
}

// A member of a scope.
struct Member {
    std::uint32_t place;  // among the values of its event, or of its packet
    std::uint32_t node;
    const ctf::EventLayout* layout;  // that has it; null: it is of the packet
};

struct InStep {
    std::uint32_t step;
    std::uint32_t offset;
};

// Where a layout has a number or a text; none: elsewhere, or it is something else.
std::optional<InStep> find_in(const ctf::DecodePlan& plan, const ctf::EventLayout& layout, std::uint32_t node) {
    using Op = ctf::PlanNode::Op;
    const Op op = plan.nodes[node].op;
    for (std::uint32_t i = 0; i < layout.steps.size(); ++i) {
        const ctf::LayoutStep& step = layout.steps[i];
        const bool is_text = op == Op::kString || op == Op::kText;
        if (step.op == ctf::LayoutStep::Op::kNode) continue;
        if (step.op != ctf::LayoutStep::Op::kRun) {
            if (step.node == node && is_text) return InStep{i, 0};
            continue;
        }
        if (!is_text && op != Op::kInteger && op != Op::kFloat) continue;
        for (std::uint32_t f = step.first_field; f < step.first_field + step.field_count; ++f)
            if (layout.fields[f].node == node) return InStep{i, layout.fields[f].offset};
    }
    return std::nullopt;
}

// A number or a text in the step that was passed over last.
ctf::FieldValue read_value(const ctf::FieldDecoder& decoder, const ctf::PlanNode& node, std::uint64_t offset) {
    using Op = ctf::PlanNode::Op;
    const std::uint64_t begin = decoder.begin_of_step() + offset;
    if (node.op != Op::kString && node.op != Op::kText) return decoder.value_at(node, begin);
    ctf::FieldValue value;
    value.field_class = node.field_class;
    value.text = reinterpret_cast<const char*>(decoder.bytes_at(begin));  // NOLINT(*-reinterpret-cast)
    const bool is_array = node.op == Op::kText && node.length_slot == 0;
    const std::uint64_t room = is_array ? node.length : (decoder.position() - begin) / 8;
    value.size = static_cast<std::uint32_t>(::strnlen(value.text, room));
    value.is_text = true;
    return value;
}

}  // namespace

std::vector<std::string_view> split_titles(std::string_view titles) {
    std::vector<std::string_view> split;
    while (true) {
        const std::size_t comma = std::min(titles.find(','), titles.size());
        split.push_back(titles.substr(0, comma));
        if (comma == titles.size()) return split;
        titles.remove_prefix(comma + 1);
    }
}

std::vector<EventTable::Column> EventTable::all_columns(std::span<const ctf::TraceClass* const> trace_classes) {
    Names contexts;
    Names fields;
    for (const ctf::TraceClass* trace_class : trace_classes)
        for (const ctf::StreamClass& stream : trace_class->streams) {
            contexts.add_packet_context(*trace_class, stream);
            contexts.add(stream.event_context);
            for (const ctf::EventClass& event : stream.events) {
                contexts.add(event.context);
                fields.add(event.fields);
            }
        }
    using Kind = Column::Kind;
    std::vector<Column> columns{{"time", Kind::kTime}, {"time_ns", Kind::kTimeNs}, {"name", Kind::kName}};
    std::set<std::string> taken{"time", "time_ns", "name", "log_level"};
    // Names of CTF 2 may be any text, also that of another one with what is put in front here.
    const auto take = [&](std::string title, std::string_view scope, bool is_clear) {
        if (!is_clear) title.insert(0, scope);
        while (!taken.insert(title).second) title.insert(0, scope);
        return title;
    };
    for (const std::string& name : contexts.all())
        columns.push_back({take(name, "$ctx.", !fields.contains(name)), Kind::kContext, {name}});
    for (const std::string& name : fields.all())
        columns.push_back({take(name, "payload.", true), Kind::kPayload, {name}});
    return columns;
}

Result<EventTable::Column> EventTable::parse_column(std::string_view text,
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
    const auto column_of = [&](const std::string& field) -> std::optional<Column> {
        auto expression = parse_filter(field);
        if (!expression || expression->nodes.size() != 1 || expression->fields.size() != 1) return std::nullopt;
        const FilterField named = expression->fields.front();
        if (named.path.empty() || !EventExpression(*std::move(expression)).check(trace_classes)) return std::nullopt;
        const bool is_of_context = named.place == FilterField::Place::kContext;  // "$app.shop:request", too
        return Column{title, is_of_context ? Kind::kContext : Kind::kPayload, named.path};
    };
    if (auto column = is_context ? std::nullopt : column_of(std::string(bare))) return *std::move(column);
    if (auto column = is_payload ? std::nullopt : column_of(fmt::format("$ctx.{}", bare))) return *std::move(column);
    return not_found("column \"{}\": no event has such a field or context", text);
}

Result<EventTable> EventTable::make(std::optional<std::span<const std::string_view>> titles,
                                    std::span<const ctf::TraceClass* const> trace_classes) {
    EventTable table;
    std::vector<Column> all = all_columns(trace_classes);
    // First as it is: a name of CTF 2 may be any text.
    for (const std::string_view title : titles.value_or(std::span<const std::string_view>())) {
        const auto known = std::ranges::find(all, title, &Column::title);
        if (known != all.end())
            table.columns_.push_back(*known);
        else
            table.columns_.push_back(LEAT_TRY(parse_column(title, trace_classes)));
    }
    if (!titles) table.columns_ = std::move(all);
    return table;
}

Result<void> EventTable::go_to(const PacketView& packet, const ctf::EventPlace& place) {
    if (rows_of(packet).classes[place.event].places.size() != columns_.size()) {
        places_ += columns_.size();
        if (places_ > kMaxPlaces) forget_rows();
        rows_of(packet).classes[place.event] = make_row(*packet.plan, packet.plan->events[place.event]);
    }
    PlanRows& rows = rows_of(packet);
    const ClassRow& row = rows.classes[place.event];
    of_packet_ = &packet;
    place_ = &place;
    row_ = &row;
    if (packet_ != packet.number) {
        packet_ = 0;
        packet_members_.clear();
        append_members(packet_members_, LEAT_TRY(decoder_.enter(packet))->packet_context());
        packet_ = packet.number;
    }
    if (!row.is_placed) {
        find_members(*LEAT_TRY(decoder_.decode(packet, place)));
    } else if (!read_placed(rows, row, packet, place) || !packet.is_whole()) {
        return changed(packet);
    }
    return {};
}

// Each class has a place for each column, also where classes and columns are as many as a trace can have.
void EventTable::forget_rows() {
    plans_.clear();
    plan_ = 0;
    rows_ = nullptr;
    places_ = columns_.size();
}

EventTable::Cell EventTable::cell(std::size_t number) const {
    const Column& column = columns_[number];
    const std::uint32_t place = row_->places[number];
    if (place == kInBytes) return {.field = &placed_[number]};
    if (place != kNowhere) {
        const auto& members = (place & kOfPacket) != 0 ? packet_members_ : members_;
        return {.field = find_part(members[place & ~kOfPacket], ValuePathView(column.path).subspan(1))};
    }
    if (column.kind != Column::Kind::kContext) return {};
    return {.environment = environment_value(*of_packet_->trace_class, column.path)};
}

EventTable::PlanRows& EventTable::rows_of(const PacketView& packet) {
    if (plan_ != packet.plan->number) {
        if (plans_.size() >= kMaxPlanRows && !plans_.contains(packet.plan->number)) plans_.clear();
        auto& rows = plans_[packet.plan->number];
        if (rows == nullptr) rows = std::make_unique<PlanRows>(*packet.plan);
        plan_ = packet.plan->number;
        rows_ = rows.get();
    }
    if (rows_->classes.size() < packet.plan->events.size()) rows_->classes.resize(packet.plan->events.size());
    return *rows_;
}

std::string_view EventTable::text_of(const Cell& cell, TextBuffer& scratch) {
    scratch.clear();
    if (cell.field == nullptr) {
        if (cell.environment.kind == FilterValue::Kind::kText) return cell.environment.plain;
        if (cell.environment.kind == FilterValue::Kind::kInteger) scratch.append_number(cell.environment.integer);
        return scratch.text();
    }
    const ctf::FieldValue& value = *cell.field;
    if (value.is_text) return {value.text, value.size};
    if (const auto* enumeration = value.field_class == nullptr ? nullptr : value.field_class->as<ctf::EnumClass>()) {
        const FoundLabels found(value.number, *enumeration);
        if (found.labels().size() == 1 && !enumeration->is_bit_map)
            return enumeration->ranges[found.labels().front()].label;
        enumeration->container.is_signed ? scratch.append_number(static_cast<std::int64_t>(value.number))
                                         : scratch.append_number(value.number);
        return scratch.text();
    }
    // Numbers are the same in JSON, but for some in quotes, such as "NaN".
    append_json(scratch, {&value, next_sibling(&value)});
    std::string_view text = scratch.text();
    if (text.starts_with('"')) text = text.substr(1, text.size() - 2);
    return text;
}

// Which members of all scopes the columns want is the same in all events of a class.
EventTable::ClassRow EventTable::make_row(const ctf::DecodePlan& plan, const ctf::EventPlan& event) const {
    std::map<std::string_view, Member> contexts;
    std::map<std::string_view, Member> fields;
    // The first of a name counts.
    const auto add = [&plan](auto& named, ctf::PlanRoot scope, std::uint32_t first, const ctf::EventLayout* layout) {
        std::uint32_t place = first;
        for (const std::uint32_t node : shown_members(plan, scope))
            named.emplace(plan.nodes[node].name, Member{place++, node, layout});
        return place;
    };
    add(contexts, plan.packet_context, kOfPacket, nullptr);
    std::uint32_t place = add(contexts, plan.event_context, 0, &plan.context_layout);
    place = add(contexts, event.context, place, &event.layout);
    add(fields, event.fields, place, &event.layout);

    ClassRow row;
    row.is_placed = !event.layout.is_for_decoder;
    for (std::uint32_t i = 0; i < columns_.size(); ++i) {
        const ValuePath& path = columns_[i].path;
        const auto& named = columns_[i].kind == Column::Kind::kPayload ? fields : contexts;
        const auto* const name = path.empty() ? nullptr : std::get_if<std::string>(&path.front());
        const auto known = name == nullptr ? named.end() : named.find(*name);
        row.places.push_back(known == named.end() ? kNowhere : known->second.place);
        if (known == named.end() || known->second.layout == nullptr) continue;
        const auto in_step = path.size() == 1 ? find_in(plan, *known->second.layout, known->second.node) : std::nullopt;
        row.is_placed = row.is_placed && in_step;
        if (!in_step) continue;
        auto& placed = known->second.layout == &plan.context_layout ? row.context_fields : row.fields;
        placed.push_back({in_step->step, in_step->offset, i, known->second.node});
    }
    if (!row.is_placed) return row;
    for (auto* placed : {&row.context_fields, &row.fields}) {
        std::ranges::sort(*placed, {}, &PlacedField::step);
        for (const PlacedField& field : *placed) row.places[field.column] = kInBytes;
    }
    return row;
}

bool EventTable::read_placed(PlanRows& rows, const ClassRow& row, const PacketView& packet,
                             const ctf::EventPlace& place) {
    if (row.context_fields.empty() && row.fields.empty()) return true;
    if (rows.packet != packet.number) rows.decoder.start_packet(packet.bytes, packet.content_bits);
    rows.packet = packet.number;
    rows.decoder.seek(place.payload);
    placed_.resize(columns_.size());
    if (!read_placed(rows.decoder, packet.plan->context_layout, row.context_fields)) return false;
    return row.fields.empty() || read_placed(rows.decoder, packet.plan->events[place.event].layout, row.fields);
}

// What follows begins where the last step ends.
bool EventTable::read_placed(ctf::FieldDecoder& decoder, const ctf::EventLayout& layout,
                             std::span<const PlacedField> fields) {
    auto field = fields.begin();
    for (std::uint32_t i = 0; i < layout.steps.size(); ++i) {
        if (!decoder.skip(layout, layout.steps[i])) return false;
        for (; field != fields.end() && field->step == i; ++field)
            placed_[field->column] = read_value(decoder, of_packet_->plan->nodes[field->node], field->offset);
    }
    return true;
}

void EventTable::find_members(const ctf::EventRecord& event) {
    members_.clear();
    append_members(members_, event.event_context);
    append_members(members_, event.context);
    append_members(members_, event.fields);
}

}  // namespace leat::viewer
