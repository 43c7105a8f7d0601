#include "viewer/sink/columns.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "viewer/sink/fields_by_name.hpp"

namespace leat::viewer {
namespace {

using ColumnKind = EventTable::Column::Kind;
using Type = Column::Type;

Type type_of(const ctf::FieldClass& field_class) {
    if (field_class.as<ctf::FloatClass>() != nullptr) return Type::kDouble;
    const auto* const integer = field_class.as<ctf::IntegerClass>();
    if (integer == nullptr) return Type::kText;
    return integer->is_signed || integer->size < 64 ? Type::kInt64 : Type::kUint64;
}

bool is_unsigned_integer(const ctf::FieldClass& field_class) {
    const auto* const integer = field_class.as<ctf::IntegerClass>();
    return integer != nullptr && !integer->is_signed;
}

using FieldsOfTraces = std::vector<FieldsByName>;

FieldsOfTraces fields_of(const RecordedTraces& traces, EventExpression* filter) {
    FieldsOfTraces fields;
    fields.reserve(traces.size());
    for (const auto& trace : traces) fields.emplace_back(trace->trace_class(), filter);
    return fields;
}

// What all these fields of the column are: unsigned integers of any size are kUint64 together; else, kText if they are
// not all the same.
std::optional<Type> common_type(const EventTable::Column& column, const RecordedTraces& traces,
                                const FieldsOfTraces& fields) {
    std::optional<Type> type;
    bool are_unsigned = true;
    const auto add = [&](Type other, bool is_unsigned = false) {
        are_unsigned = are_unsigned && is_unsigned;
        const bool is_same = type.value_or(other) == other;
        type = is_same ? other : are_unsigned ? Type::kUint64 : Type::kText;
    };
    const auto add_class = [&](const ctf::FieldClass& field_class) {
        add(type_of(field_class), is_unsigned_integer(field_class));
        return false;
    };
    for (std::size_t i = 0; i < traces.size(); ++i) {
        if (column.kind == ColumnKind::kPayload) fields[i].visit_payload(column.path, add_class);
        if (column.kind != ColumnKind::kContext) continue;
        fields[i].visit_contexts(column.path, add_class);
        if (!fields[i].may_lack_context(column.path)) continue;
        const FilterValue value = environment_value(traces[i]->trace_class(), column.path);
        if (value.kind == FilterValue::Kind::kText) add(Type::kText);
        if (value.kind == FilterValue::Kind::kInteger) add(Type::kInt64);
    }
    return type;
}

// By what events have that the filter may take; if those have none, by what all have.
class ColumnTypes {
  public:
    ColumnTypes(const RecordedTraces& traces, EventExpression* filter)
        : traces_(traces), taken_(fields_of(traces, filter)) {}

    Type of(const EventTable::Column& column) {
        if (column.kind == ColumnKind::kTimeNs || column.kind == ColumnKind::kLogLevel) return Type::kInt64;
        if (column.kind == ColumnKind::kTime || column.kind == ColumnKind::kName) return Type::kText;
        if (const auto type = common_type(column, traces_, taken_)) return *type;
        if (!all_) all_ = fields_of(traces_, nullptr);
        return common_type(column, traces_, *all_).value_or(Type::kText);
    }

  private:
    const RecordedTraces& traces_;
    FieldsOfTraces taken_;
    std::optional<FieldsOfTraces> all_{};
};

}  // namespace

std::uint32_t TextSet::number_of(std::string_view text) {
    // Most are that of the row before.
    if (!texts_.empty() && texts_[latest_] == text) return latest_;
    if (const auto known = numbers_.find(text); known != numbers_.end()) return latest_ = known->second;
    constexpr std::size_t kBlock = 64U << 10U;
    if (room_ < text.size() || blocks_.empty()) {
        room_ = std::max(kBlock, text.size());
        blocks_.push_back(std::make_unique_for_overwrite<char[]>(room_));  // NOLINT(*-avoid-c-arrays)
        size_of_last_ = room_;
    }
    char* const place = blocks_.back().get() + (size_of_last_ - room_);
    if (!text.empty()) std::memcpy(place, text.data(), text.size());
    room_ -= text.size();
    latest_ = static_cast<std::uint32_t>(texts_.size());
    texts_.emplace_back(place, text.size());
    numbers_.emplace(texts_.back(), latest_);
    return latest_;
}

void Column::append_missing() {
    if (is_missing_.empty()) is_missing_.resize(values_.size());
    values_.push_back(0);
    is_missing_.push_back(1);
}

void Column::cut(std::size_t rows) {
    values_.resize(rows);
    if (!is_missing_.empty()) is_missing_.resize(rows);
}

Result<ColumnReader> ColumnReader::make(std::optional<std::span<const std::string_view>> names,
                                        const RecordedTraces& traces, std::optional<EventExpression> filter) {
    const auto classes = classes_of(traces);
    ColumnReader reader(LEAT_TRY(EventTable::make(names, classes)));
    if (!names) reader.table_.leave_out(ColumnKind::kTime);
    ColumnTypes types(traces, filter ? &*filter : nullptr);
    for (const EventTable::Column& column : reader.table_.columns())
        reader.columns_.emplace_back(column.title, types.of(column));
    return reader;
}

Result<void> ColumnReader::append(const PacketView& packet, const ctf::EventPlace& place) {
    LEAT_TRY(table_.go_to(packet, place));
    bytes_ += columns_.size() * sizeof(std::uint64_t);
    for (std::size_t i = 0; i < columns_.size(); ++i) append_cell(i);
    return {};
}

std::vector<Column> ColumnReader::take(std::size_t rows) {
    bytes_ = 0;
    std::vector<Column> taken;
    taken.reserve(columns_.size());
    for (Column& column : columns_) {
        column.cut(rows);
        Column empty(column.name(), column.type());
        taken.push_back(std::exchange(column, std::move(empty)));
    }
    return taken;
}

void ColumnReader::append_cell(std::size_t number) {
    Column& column = columns_[number];
    const auto append_number = [&column](const std::optional<std::int64_t>& value) {
        value ? column.append(static_cast<std::uint64_t>(*value)) : column.append_missing();
    };
    switch (table_.columns()[number].kind) {
        case ColumnKind::kTime:
            if (!table_.time_ns()) return column.append_missing();
            scratch_.clear();
            time_text_.append(scratch_, *table_.time_ns());
            scratch_.append('Z');
            return append_text(column, scratch_.text());
        case ColumnKind::kTimeNs:
            return append_number(table_.time_ns());
        case ColumnKind::kName:
            return append_text(column, table_.event_class().name);
        case ColumnKind::kLogLevel:
            return append_number(table_.event_class().log_level);
        case ColumnKind::kPayload:
        case ColumnKind::kContext:
            break;
    }
    const EventTable::Cell cell = table_.cell(number);
    const bool is_in_environment = cell.environment.kind != FilterValue::Kind::kInvalid;
    if (cell.field == nullptr && !is_in_environment) return column.append_missing();
    if (column.type() == Type::kText) return append_text(column, EventTable::text_of(cell, scratch_));
    if (cell.field == nullptr) return append_number(cell.environment.integer);
    column.append(column.type() == Type::kDouble ? std::bit_cast<std::uint64_t>(cell.field->real) : cell.field->number);
}

}  // namespace leat::viewer
