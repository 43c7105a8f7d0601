#include "viewer/filter/event_expression.hpp"

#include <algorithm>
#include <string>

#include "viewer/filter/value_path.hpp"

namespace leat::viewer {
namespace {

using Path = ValuePathView;

// Of what may grow as long as the program runs; what is forgotten is made anew.
constexpr std::size_t kMaxPlans = 4096;

FilterValue value_of(const ctf::FieldValue* value) {
    if (value == nullptr) return {.kind = FilterValue::Kind::kAbsent};
    if (value->field_class == nullptr) return {};
    if (value->is_text) return text_value({value->text, value->size});
    if (value->field_class->as<ctf::FloatClass>() != nullptr) return real_value(value->real);
    if (const ctf::IntegerClass* const integer = ctf::integer_of(*value->field_class))
        return integer->is_signed ? integer_value(static_cast<std::int64_t>(value->number))
                                  : unsigned_value(value->number);
    return {};
}

bool can_have(const ctf::TraceClass& trace_class, const FilterField& field) {
    using Place = FilterField::Place;
    if (field.place != Place::kPayload && field.place != Place::kContext) return true;
    const bool is_payload = field.place == Place::kPayload;
    if (!is_payload && environment_value(trace_class, field.path).kind != FilterValue::Kind::kInvalid) return true;
    return std::ranges::any_of(trace_class.streams, [&](const ctf::StreamClass& stream) {
        if (!is_payload &&
            (has_packet_field(trace_class, stream, field.path) || has_field(stream.event_context, field.path)))
            return true;
        return std::ranges::any_of(stream.events, [&](const ctf::EventClass& event) {
            return has_field(is_payload ? event.fields : event.context, field.path);
        });
    });
}

bool is_in_class(const FilterField& field, const EventExpression::ClassPlace& place) {
    const auto& [trace_class, stream, event_class, has_time] = place;
    switch (field.place) {
        case FilterField::Place::kPayload:
            return has_field(event_class.fields, field.path);
        case FilterField::Place::kContext:
            return has_packet_field(trace_class, stream, field.path) || has_field(stream.event_context, field.path) ||
                   has_field(event_class.context, field.path) ||
                   environment_value(trace_class, field.path).kind != FilterValue::Kind::kInvalid;
        case FilterField::Place::kLogLevel:
            return event_class.log_level.has_value();
        case FilterField::Place::kTime:
            return has_time;
        case FilterField::Place::kName:
            break;
    }
    return true;
}

}  // namespace

FilterValue environment_value(const ctf::TraceClass& trace_class, ValuePathView path) {
    const auto* const name = std::get_if<std::string>(&path.front());
    if (path.size() != 1 || name == nullptr) return {};
    for (const std::string_view known : {"hostname", "procname", "domain"}) {
        const std::string* const text = *name == known ? ctf::environment_text(trace_class, known) : nullptr;
        if (text != nullptr) return text_value(*text);
    }
    const std::int64_t* const number = *name == "vpid" ? ctf::environment_number(trace_class, *name) : nullptr;
    return number == nullptr ? FilterValue{} : integer_value(*number);
}

Result<void> EventExpression::check(std::span<const ctf::TraceClass* const> trace_classes) const {
    for (const FilterField& field : expression_.fields)
        if (std::ranges::none_of(trace_classes, [&](const auto* trace) { return can_have(*trace, field); }))
            return refused("{}: no event has a {} \"{}\"", expression_.what,
                           field.place == FilterField::Place::kContext ? "context" : "field", field.text);
    return {};
}

Result<bool> EventExpression::takes(const PacketView& packet, const ctf::EventPlace& place) {
    const Verdict verdict = look_at(packet, place);
    if (verdict != Verdict::kDepends) return verdict == Verdict::kAlways;
    record_ = LEAT_TRY(decoder_.decode(packet, place));
    return is_true(evaluate());
}

Result<FilterValue> EventExpression::value(const PacketView& packet, const ctf::EventPlace& place) {
    if (look_at(packet, place) == Verdict::kLacksField) return FilterValue{};
    record_ = LEAT_TRY(decoder_.decode(packet, place));
    const FilterValue value = evaluate();
    return value.kind == FilterValue::Kind::kAbsent ? FilterValue{} : value;
}

EventExpression::Verdict EventExpression::look_at(const PacketView& packet, const ctf::EventPlace& place) {
    Verdict& verdict = verdicts_of(packet)[place.event];
    trace_class_ = packet.trace_class;
    event_class_ = packet.plan->events[place.event].event_class;
    if (verdict == Verdict::kUnknown)
        verdict = verdict_of({*trace_class_, *packet.plan->stream_class, *event_class_, packet.plan->clock != nullptr});
    return verdict;
}

bool EventExpression::may_take(const ClassPlace& place) {
    const Verdict verdict = verdict_of(place);
    return verdict == Verdict::kAlways || verdict == Verdict::kDepends;
}

std::vector<EventExpression::Verdict>& EventExpression::verdicts_of(const PacketView& packet) {
    if (verdicts_.size() >= kMaxPlans && !verdicts_.contains(packet.plan->number)) verdicts_.clear();
    auto& verdicts = verdicts_[packet.plan->number];
    if (verdicts.size() < packet.plan->events.size()) verdicts.resize(packet.plan->events.size());
    return verdicts;
}

EventExpression::Verdict EventExpression::verdict_of(const ClassPlace& place) {
    for (const FilterField& field : expression_.fields)
        if (!is_in_class(field, place)) return Verdict::kLacksField;
    trace_class_ = &place.trace_class;
    event_class_ = &place.event_class;
    record_ = nullptr;
    if (is_never(static_cast<std::uint32_t>(expression_.nodes.size() - 1))) return Verdict::kNever;
    return evaluate().kind == FilterValue::Kind::kUnknown ? Verdict::kDepends : Verdict::kAlways;
}

// Whether it is known to be false without a look at the event.
bool EventExpression::is_never(std::uint32_t node) const {
    const FilterNode& it = expression_.nodes[node];
    if (it.op == FilterOp::kAnd) return is_never(it.left) || is_never(it.right);
    const FilterValue value = evaluate(node);
    return value.kind != FilterValue::Kind::kUnknown && !is_true(value);
}

FilterValue EventExpression::evaluate(std::uint32_t node) const {
    const FilterNode& it = expression_.nodes[node];
    switch (it.op) {
        case FilterOp::kInteger:
            return it.integer < 0 ? unsigned_value(static_cast<std::uint64_t>(it.integer)) : integer_value(it.integer);
        case FilterOp::kReal:
            return real_value(it.real);
        case FilterOp::kText:
            return {.kind = FilterValue::Kind::kPattern, .text = it.text, .plain = it.plain};
        case FilterOp::kField:
            return value_of(expression_.fields[it.field]);
        case FilterOp::kMinus:
        case FilterOp::kNot:
        case FilterOp::kComplement:
            return apply(it.op, evaluate(it.left), {});
        default:
            return apply(it.op, evaluate(it.left), evaluate(it.right));
    }
}

FilterValue EventExpression::value_of(const FilterField& field) const {
    using Place = FilterField::Place;
    if (field.place == Place::kName) return text_value(event_class_->name);
    if (field.place == Place::kLogLevel) return integer_value(event_class_->log_level.value_or(0));
    if (record_ == nullptr) return {.kind = FilterValue::Kind::kUnknown};
    if (field.place == Place::kTime) return integer_value(record_->time_ns.value_or(0));
    if (field.place == Place::kContext) return context_value(field);
    return viewer::value_of(find_value(record_->fields, field.path));
}

FilterValue EventExpression::context_value(const FilterField& field) const {
    for (const auto scope : {record_->packet_context, record_->event_context, record_->context})
        if (const ctf::FieldValue* const value = find_value(scope, field.path)) return viewer::value_of(value);
    const FilterValue value = environment_value(*trace_class_, field.path);
    return value.kind == FilterValue::Kind::kInvalid ? FilterValue{.kind = FilterValue::Kind::kAbsent} : value;
}

}  // namespace leat::viewer
