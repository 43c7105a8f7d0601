#include "ctf/decode/decode_plan.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "ctf/decode/field_lookup.hpp"

namespace leat::ctf {
namespace {

// The packet header is part of every stream's plan, so its size is limited: a trace may have many streams.
constexpr std::size_t kMaxPacketHeaderNodes = 1024;

struct RoleName {
    Scope scope;
    std::string_view field;
    FieldRole role;
};

// The reader itself uses fields of these names if they are at the top of their scope.
constexpr std::array kRoleNames{
    RoleName{Scope::kPacketHeader, "magic", FieldRole::kMagic},
    RoleName{Scope::kPacketHeader, "stream_id", FieldRole::kStreamId},
    RoleName{Scope::kPacketHeader, "stream_instance_id", FieldRole::kStreamInstanceId},
    RoleName{Scope::kPacketContext, "packet_size", FieldRole::kPacketSize},
    RoleName{Scope::kPacketContext, "content_size", FieldRole::kContentSize},
    RoleName{Scope::kPacketContext, "timestamp_end", FieldRole::kTimestampEnd},
    RoleName{Scope::kPacketContext, "events_discarded", FieldRole::kEventsDiscarded},
    RoleName{Scope::kPacketContext, "packet_seq_num", FieldRole::kPacketSequenceNumber},
};

// These fields are timestamps of the trace's only clock, even without a `map`, wherever they are in their scope but in
// arrays; so are options of variants.
constexpr std::array<std::pair<Scope, std::string_view>, 3> kTimestampNames{
    std::pair{Scope::kPacketContext, "timestamp_begin"},
    std::pair{Scope::kPacketContext, "timestamp_end"},
    std::pair{Scope::kEventHeader, "timestamp"},
};

// Used by a trace that has timestamps and declares no clock.
const ClockClass kDefaultClock{.name = "default"};

// Where a field may have a role that CTF 2 states.
bool is_at_home(FieldRole role, Scope scope) {
    if (role == FieldRole::kEventId) return scope == Scope::kEventHeader;
    if (role == FieldRole::kTimestamp) return scope == Scope::kEventHeader || scope == Scope::kPacketContext;
    return std::ranges::any_of(kRoleNames,
                               [=](const RoleName& named) { return named.role == role && named.scope == scope; });
}

std::string join(const FieldPath& path) {
    constexpr std::size_t kMaxText = 100;
    const char separator = path.front() == "." || path.front() == "/" ? '/' : '.';
    std::string text;
    for (const std::string& part : path) {
        if (!text.empty() && text != "/") text += separator;
        text += part;
        if (text.size() > kMaxText) return text.substr(0, kMaxText) + "...";
    }
    return text;
}

}  // namespace

class DecodePlanner::Builder {
  public:
    Builder(const TraceClass& trace_class, const StreamClass& stream_class) : trace_class_(trace_class) {
        static std::atomic<std::uint64_t> count = 0;
        plan_.number = count.fetch_add(1, std::memory_order_relaxed) + 1;
        plan_.stream_class = &stream_class;
        plan_.has_roles = trace_class.has_roles;
    }

    Result<void> grow(TraceIndex& index);
    [[nodiscard]] const DecodePlan& plan() const { return plan_; }

  private:
    Result<void> stream_scopes();
    Result<PlanRoot> root(Scope scope, const std::optional<StructClass>& struct_class);
    Result<EventPlan> event(const EventClass& event_class);
    void number_event(std::uint64_t id);
    DecodePlan::PlainEvent plain_event(std::uint32_t number, const PlainLayout& layout);
    [[nodiscard]] std::uint32_t distance_behind(const PlainRun& first) const;

    Result<void> node(std::uint32_t index, const FieldClass& field_class);
    Result<void> fill(std::uint32_t index, const IntegerClass& integer);
    Result<void> fill(std::uint32_t index, const FloatClass& real);
    Result<void> fill(std::uint32_t index, const EnumClass& enumeration);
    Result<void> fill(std::uint32_t index, const StringClass& string);
    Result<void> fill(std::uint32_t index, const ArrayClass& array);
    Result<void> fill(std::uint32_t index, const SequenceClass& sequence);
    Result<void> fill(std::uint32_t index, const StructClass& struct_class);
    Result<void> fill(std::uint32_t index, const VariantClass& variant);
    Result<void> element(std::uint32_t index, const FieldClass& field_class);
    Result<void> choose(std::uint32_t index, const VariantClass& variant, const FieldClass& tag);
    Result<void> explicit_choices(std::uint32_t index, const VariantClass& variant, const IntegerClass* tag);
    void choices(std::uint32_t index, const VariantClass& variant, const EnumClass& tag);
    void label_choices(std::uint32_t index, const VariantClass& variant, const EnumClass& tag);
    std::uint32_t labels_of(const EnumClass& tag);

    Result<void> give_role(std::uint32_t index, const IntegerClass& integer);
    [[nodiscard]] FieldRole role_of_name() const;
    Result<void> give_clock(std::uint32_t index, const IntegerClass& integer);
    Result<const ClockClass*> clock_of(const IntegerClass& integer) const;

    // The node that a path names, if it is decoded before the one that is being built.
    Result<std::uint32_t> find(const FieldPath& path) const;
    std::uint32_t slot_of(std::uint32_t index);
    std::uint32_t add_children(std::uint32_t index, std::size_t count);

    const TraceClass& trace_class_;
    TraceIndex* index_ = nullptr;  // set while the plan grows
    DecodePlan plan_;
    bool has_stream_scopes_ = false;
    Scope scope_ = Scope::kPacketHeader;
    FieldLookup lookup_;
    std::string_view field_;  // TSDL name of the field that is being built; empty: it has no name
    bool is_option_ = false;  // it is an option of a variant
    unsigned arrays_ = 0;     // around it
    std::map<const EnumLabels*, std::uint32_t> known_labels_;  // into plan_.tag_labels
};

Result<void> DecodePlanner::Builder::grow(TraceIndex& index) {
    index_ = &index;
    if (!std::exchange(has_stream_scopes_, true)) LEAT_TRY(stream_scopes());
    const auto& events = plan_.stream_class->events;
    while (plan_.events.size() < events.size()) {
        const EventClass& event_class = events[plan_.events.size()];
        auto planned = event(event_class);
        if (!planned) return wrap(fmt::format("event '{}'", event_class.name), std::move(planned).error());
        plan_.events.push_back(*planned);
        number_event(event_class.id);
    }
    return {};
}

Result<void> DecodePlanner::Builder::stream_scopes() {
    const StreamClass& stream = *plan_.stream_class;
    // Its events have times, also if no field says them.
    if (!stream.clock.empty()) plan_.clock = index_->clock(stream.clock);
    plan_.packet_header = LEAT_TRY(root(Scope::kPacketHeader, trace_class_.packet_header));
    if (plan_.nodes.size() > kMaxPacketHeaderNodes)
        return refused("packet header has more than {} fields", kMaxPacketHeaderNodes);
    plan_.packet_context = LEAT_TRY(root(Scope::kPacketContext, stream.packet_context));
    plan_.event_header = LEAT_TRY(root(Scope::kEventHeader, stream.event_header));
    plan_.header_form = find_header_form(plan_.nodes, plan_.choices, plan_.event_header);
    plan_.event_context = LEAT_TRY(root(Scope::kEventContext, stream.event_context));
    plan_.context_layout = lay_out(plan_.nodes, std::array{plan_.event_context});
    return {};
}

Result<EventPlan> DecodePlanner::Builder::event(const EventClass& event_class) {
    EventPlan event{.event_class = &event_class};
    lookup_.begin_event();
    const auto first = static_cast<std::uint32_t>(plan_.nodes.size());
    event.context = LEAT_TRY(root(Scope::kContext, event_class.context));
    event.fields = LEAT_TRY(root(Scope::kFields, event_class.fields));
    event.layout = lay_out(plan_.nodes, std::array{event.context, event.fields}, plan_.context_layout.is_for_decoder);
    lookup_.end_event(first);
    return event;
}

// Gives a number to the event that was planned last.
void DecodePlanner::Builder::number_event(std::uint64_t id) {
    constexpr std::uint64_t kFewIds = 64;
    const auto number = static_cast<std::uint32_t>(plan_.events.size());
    auto& small = plan_.event_by_small_id;
    if (id >= 2 * std::uint64_t{number} + kFewIds) {
        plan_.event_by_large_id.emplace(id, number);
        return;
    }
    if (id >= small.size()) small.resize(id + 1);
    small[id] = number;
    plan_.plain_by_small_id.resize(small.size());
    const std::optional<PlainLayout>& plain = plan_.events.back().layout.plain;
    if (plain && plan_.header_form.is_of(id)) plan_.plain_by_small_id[id] = plain_event(number, *plain);
}

DecodePlan::PlainEvent DecodePlanner::Builder::plain_event(std::uint32_t number, const PlainLayout& layout) {
    const auto first = static_cast<std::uint32_t>(plan_.runs_behind_strings.size());
    plan_.runs_behind_strings.insert(plan_.runs_behind_strings.end(), layout.behind_strings.begin(),
                                     layout.behind_strings.end());
    return {.number = number,
            .count = layout.count,
            .first = layout.first,
            .distance = distance_behind(layout.first),
            .first_behind_string = first,
            .string_count = static_cast<std::uint32_t>(layout.behind_strings.size())};
}

// See DecodePlan::PlainEvent.
std::uint32_t DecodePlanner::Builder::distance_behind(const PlainRun& first) const {
    if (!plan_.context_layout.plain) return 0;
    const PlainRun& context = plan_.context_layout.plain->first;
    if (std::max(context.alignment, first.alignment) > plan_.header_form.alignment) return 0;
    const std::uint64_t distance = first.end_after(context.end_after(plan_.header_form.size));
    return distance <= UINT32_MAX ? static_cast<std::uint32_t>(distance) : 0;
}

Result<PlanRoot> DecodePlanner::Builder::root(Scope scope, const std::optional<StructClass>& struct_class) {
    if (!struct_class) return PlanRoot{};
    scope_ = scope;
    const auto index = static_cast<std::uint32_t>(plan_.nodes.size());
    plan_.nodes.emplace_back();
    lookup_.begin_scope(scope, index);
    LEAT_TRY(fill(index, *struct_class));
    return PlanRoot{index};
}

Result<void> DecodePlanner::Builder::node(std::uint32_t index, const FieldClass& field_class) {
    PlanNode& added = plan_.nodes[index];
    added.field_class = &field_class;
    return std::visit([this, index](const auto& form) { return fill(index, form); }, field_class.form());
}

Result<void> DecodePlanner::Builder::fill(std::uint32_t index, const IntegerClass& integer) {
    PlanNode& node = plan_.nodes[index];
    const bool is_odd = integer.is_variable || integer.is_reversed || integer.kind == IntegerKind::kBoolean;
    node.op = is_odd ? PlanNode::Op::kOddInteger : PlanNode::Op::kInteger;
    node.alignment = integer.alignment;
    node.size = static_cast<std::uint8_t>(integer.size);
    node.is_signed = integer.is_signed;
    node.is_big_endian = integer.byte_order == ByteOrder::kBigEndian;
    LEAT_TRY(give_role(index, integer));
    return give_clock(index, integer);
}

Result<void> DecodePlanner::Builder::fill(std::uint32_t index, const EnumClass& enumeration) {
    return fill(index, enumeration.container);
}

Result<void> DecodePlanner::Builder::fill(std::uint32_t index, const FloatClass& real) {
    PlanNode& node = plan_.nodes[index];
    node.op = PlanNode::Op::kFloat;
    node.alignment = real.alignment;
    node.size = static_cast<std::uint8_t>(real.size);
    node.is_big_endian = real.byte_order == ByteOrder::kBigEndian;
    return {};
}

Result<void> DecodePlanner::Builder::fill(std::uint32_t index, const StringClass& string) {
    plan_.nodes[index].op = unit_size(string.encoding) == 1 ? PlanNode::Op::kString : PlanNode::Op::kWideString;
    plan_.nodes[index].alignment = 8;
    return {};
}

Result<void> DecodePlanner::Builder::fill(std::uint32_t index, const ArrayClass& array) {
    plan_.nodes[index].length = array.length;
    plan_.nodes[index].alignment = array.minimum_alignment;
    return element(index, *array.element);
}

Result<void> DecodePlanner::Builder::fill(std::uint32_t index, const SequenceClass& sequence) {
    const std::uint32_t length = LEAT_TRY(find(sequence.length));
    const IntegerClass* const integer = integer_of(*plan_.nodes[length].field_class);
    if (integer == nullptr || integer->is_signed || integer->kind != IntegerKind::kNumber)
        return corrupt("length '{}' is not an unsigned integer", join(sequence.length));
    const std::uint32_t slot = slot_of(length);
    plan_.nodes[index].length_slot = slot;
    plan_.nodes[index].alignment = sequence.minimum_alignment;
    return element(index, *sequence.element);
}

Result<void> DecodePlanner::Builder::element(std::uint32_t index, const FieldClass& field_class) {
    plan_.nodes[index].op = PlanNode::Op::kArray;
    if (is_character(field_class)) {
        const bool is_wide = unit_size(integer_of(field_class)->encoding) != 1;
        plan_.nodes[index].op = is_wide ? PlanNode::Op::kWideText : PlanNode::Op::kText;
    }
    const std::uint32_t child = add_children(index, 1);
    field_ = {};
    lookup_.begin_part(index, child);
    ++arrays_;
    LEAT_TRY(node(child, field_class));
    --arrays_;
    lookup_.end_part(index);
    plan_.nodes[index].alignment = std::max(plan_.nodes[index].alignment, plan_.nodes[child].alignment);
    plan_.nodes[index].is_shown = plan_.nodes[child].is_shown;
    return {};
}

Result<void> DecodePlanner::Builder::fill(std::uint32_t index, const StructClass& struct_class) {
    plan_.nodes[index].op = PlanNode::Op::kStruct;
    const std::uint32_t first = add_children(index, struct_class.members.size());
    bool is_shown = struct_class.members.empty();
    unsigned alignment = struct_class.minimum_alignment;
    lookup_.begin_struct(index, first, struct_class);
    for (std::uint32_t i = 0; i < struct_class.members.size(); ++i) {
        const StructMember& member = struct_class.members[i];
        lookup_.begin_member(i);
        field_ = member.name;
        is_option_ = false;
        plan_.nodes[first + i].name = display_name(member);
        LEAT_TRY(node(first + i, member.field_class));
        is_shown |= plan_.nodes[first + i].is_shown;
        alignment = std::max(alignment, plan_.nodes[first + i].alignment);
    }
    lookup_.end_struct();
    plan_.nodes[index].alignment = alignment;
    plan_.nodes[index].is_shown = is_shown;
    return {};
}

Result<void> DecodePlanner::Builder::fill(std::uint32_t index, const VariantClass& variant) {
    if (variant.tag.empty()) return corrupt("variant '{}' has no tag", plan_.nodes[index].name);
    const std::uint32_t tag = LEAT_TRY(find(variant.tag));
    const std::uint32_t slot = slot_of(tag);
    plan_.nodes[index].op = PlanNode::Op::kVariant;
    plan_.nodes[index].length_slot = slot;
    plan_.nodes[index].is_optional = variant.is_optional;
    LEAT_TRY(choose(index, variant, *plan_.nodes[tag].field_class));
    const std::uint32_t first = add_children(index, variant.options.size());
    for (std::uint32_t i = 0; i < variant.options.size(); ++i) {
        field_ = variant.options[i].name;
        is_option_ = true;
        lookup_.begin_part(index, first + i);
        LEAT_TRY(node(first + i, variant.options[i].field_class));
        lookup_.end_part(index);
    }
    if (variant.is_optional) plan_.nodes[index].is_shown = plan_.nodes[first].is_shown;
    return {};
}

Result<void> DecodePlanner::Builder::choose(std::uint32_t index, const VariantClass& variant, const FieldClass& tag) {
    if (variant.is_optional || !variant.choices.empty()) return explicit_choices(index, variant, integer_of(tag));
    const auto* enumeration = tag.as<EnumClass>();
    if (enumeration == nullptr) return corrupt("tag '{}' is not an enum", join(variant.tag));
    if (enumeration->labels != nullptr || enumeration->ranges.size() >= EnumLabels::kMinRanges)
        label_choices(index, variant, *enumeration);
    else
        choices(index, variant, *enumeration);
    return {};
}

// Sorted, so that a search takes a few steps. `tag` may be null.
Result<void> DecodePlanner::Builder::explicit_choices(std::uint32_t index, const VariantClass& variant,
                                                      const IntegerClass* tag) {
    const bool is_boolean = variant.choices.empty();
    if (tag == nullptr || tag->kind != (is_boolean ? IntegerKind::kBoolean : IntegerKind::kNumber))
        return corrupt("selector '{}' is not {}", join(variant.tag), is_boolean ? "a boolean" : "an integer");
    std::vector<VariantChoice> sorted = variant.choices;
    if (is_boolean) sorted.push_back({.lower = 1, .upper = 1});
    const auto is_less = [&](std::uint64_t a, std::uint64_t b) { return !is_at_most(b, a, tag->is_signed); };
    std::ranges::sort(sorted, is_less, &VariantChoice::lower);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        const VariantChoice& choice = sorted[i];
        const bool fits =
            tag->is_signed ? choice.is_negative || static_cast<std::int64_t>(choice.lower) >= 0 : !choice.is_negative;
        if (!fits || is_less(choice.upper, choice.lower))
            return corrupt("a range of the selector '{}' is of {} integers", join(variant.tag),
                           tag->is_signed ? "unsigned" : "signed");
        if (i > 0 && !is_less(sorted[i - 1].upper, choice.lower))
            return corrupt("two ranges of the selector '{}' overlap", join(variant.tag));
    }
    PlanNode& node = plan_.nodes[index];
    node.is_signed = tag->is_signed;
    node.has_sorted_choices = true;
    node.first_choice = static_cast<std::uint32_t>(plan_.choices.size());
    node.choice_count = static_cast<std::uint32_t>(sorted.size());
    plan_.choices.insert(plan_.choices.end(), sorted.begin(), sorted.end());
    return {};
}

void DecodePlanner::Builder::choices(std::uint32_t index, const VariantClass& variant, const EnumClass& tag) {
    PlanNode& node = plan_.nodes[index];
    node.is_signed = tag.container.is_signed;
    node.first_choice = static_cast<std::uint32_t>(plan_.choices.size());
    for (std::uint32_t option = 0; option < variant.options.size(); ++option)
        for (const EnumRange& range : tag.ranges)
            if (range.label == variant.options[option].name)
                plan_.choices.push_back({range.lower, range.upper, option});
    node.choice_count = static_cast<std::uint32_t>(plan_.choices.size()) - node.first_choice;
}

// The ranges are in the enum's index. So the cost of a variant depends on its options, not on the ranges of its tag.
void DecodePlanner::Builder::label_choices(std::uint32_t index, const VariantClass& variant, const EnumClass& tag) {
    PlanNode& node = plan_.nodes[index];
    node.tag_labels = labels_of(tag);
    node.first_choice = static_cast<std::uint32_t>(plan_.label_choices.size());
    for (std::uint32_t option = 0; option < variant.options.size(); ++option)
        if (const auto label = plan_.tag_labels[node.tag_labels]->label(tag.ranges, variant.options[option].name))
            plan_.label_choices.push_back({*label, option});
    std::sort(plan_.label_choices.begin() + node.first_choice, plan_.label_choices.end(),
              [](const PlanLabelChoice& left, const PlanLabelChoice& right) { return left.label < right.label; });
    node.choice_count = static_cast<std::uint32_t>(plan_.label_choices.size()) - node.first_choice;
}

std::uint32_t DecodePlanner::Builder::labels_of(const EnumClass& tag) {
    std::shared_ptr<const EnumLabels> labels = tag.labels;
    // The parser has made an index where it is needed. A class that was made by hand is small enough to get one here.
    if (labels == nullptr) labels = EnumLabels::make(tag.ranges, tag.container.is_signed, SIZE_MAX);
    const auto number = static_cast<std::uint32_t>(plan_.tag_labels.size());
    const auto [known, is_new] = known_labels_.emplace(labels.get(), number);
    if (is_new) plan_.tag_labels.push_back(std::move(labels));
    return known->second;
}

Result<void> DecodePlanner::Builder::give_role(std::uint32_t index, const IntegerClass& integer) {
    PlanNode& node = plan_.nodes[index];
    node.role = trace_class_.has_roles ? integer.role : role_of_name();
    if (node.role == FieldRole::kNone) return {};
    if (trace_class_.has_roles && !is_at_home(node.role, scope_))
        return corrupt("field '{}' has a role that it cannot have there", field_);
    if (node.is_signed) return corrupt("field '{}' is signed", field_);
    node.is_shown = false;
    return {};
}

FieldRole DecodePlanner::Builder::role_of_name() const {
    if (is_option_) return FieldRole::kNone;
    if (scope_ == Scope::kEventHeader && field_ == "id") return FieldRole::kEventId;
    for (const RoleName& named : kRoleNames)
        if (lookup_.is_at_top() && named.scope == scope_ && named.field == field_) return named.role;
    return FieldRole::kNone;
}

Result<void> DecodePlanner::Builder::give_clock(std::uint32_t index, const IntegerClass& integer) {
    PlanNode& node = plan_.nodes[index];
    const ClockClass* const clock = LEAT_TRY(clock_of(integer));
    if (clock == nullptr) return {};
    if (plan_.clock != nullptr && plan_.clock != clock)
        return unsupported("stream {} has timestamps of two clocks, '{}' and '{}'", plan_.stream_class->id,
                           plan_.clock->name, clock->name);
    plan_.clock = clock;
    node.is_shown = false;
    // The end of a packet is later than its events, so it does not move the clock, nor does one inside of a struct.
    const bool is_end = node.role == FieldRole::kTimestampEnd;
    node.is_timestamp = !is_end && (scope_ != Scope::kPacketContext || field_ != "timestamp_end");
    if (is_end && !integer.is_variable) plan_.end_size = node.size;
    return {};
}

// Null for an integer that is not a timestamp.
Result<const ClockClass*> DecodePlanner::Builder::clock_of(const IntegerClass& integer) const {
    const std::string& name = is_time(integer.role) ? plan_.stream_class->clock : integer.clock;
    if (is_time(integer.role) && name.empty())
        return corrupt("field '{}' is a timestamp, and stream {} has no clock", field_, plan_.stream_class->id);
    if (!name.empty()) {
        const ClockClass* const clock = index_->clock(name);
        if (clock == nullptr) return corrupt("field '{}' uses clock '{}', which is not declared", field_, name);
        return clock;
    }
    const auto is_named = [this](const auto& named) { return named.first == scope_ && named.second == field_; };
    if (trace_class_.has_roles || arrays_ != 0 || std::ranges::none_of(kTimestampNames, is_named)) return nullptr;
    if (trace_class_.clocks.size() > 1)
        return unsupported("stream {}: field '{}' does not say of which clock it is", plan_.stream_class->id, field_);
    return trace_class_.clocks.empty() ? &kDefaultClock : &trace_class_.clocks.front();
}

Result<std::uint32_t> DecodePlanner::Builder::find(const FieldPath& path) const {
    const auto found = lookup_.find(path);
    if (!found || plan_.nodes[*found].field_class == nullptr)
        return corrupt("no field '{}' before the one that needs it", join(path));
    return *found;
}

std::uint32_t DecodePlanner::Builder::slot_of(std::uint32_t index) {
    PlanNode& node = plan_.nodes[index];
    if (node.slot == 0) node.slot = plan_.slot_count++;
    // Also one that the reader itself uses is shown, then.
    if (scope_ == Scope::kPacketContext) node.is_shown = true;
    return node.slot;
}

std::uint32_t DecodePlanner::Builder::add_children(std::uint32_t index, std::size_t count) {
    const auto first = static_cast<std::uint32_t>(plan_.nodes.size());
    plan_.nodes.resize(plan_.nodes.size() + count);
    plan_.nodes[index].first_child = first;
    plan_.nodes[index].child_count = static_cast<std::uint32_t>(count);
    return first;
}

DecodePlanner::DecodePlanner(const TraceClass& trace_class, const StreamClass& stream_class)
    : builder_(std::make_unique<Builder>(trace_class, stream_class)) {}

DecodePlanner::~DecodePlanner() = default;

Result<void> DecodePlanner::grow(TraceIndex& index) {
    if (failure_) return tl::unexpected(*failure_);
    auto grown = builder_->grow(index);
    if (!grown) failure_ = grown.error();
    return grown;
}

const DecodePlan& DecodePlanner::plan() const { return builder_->plan(); }

Result<DecodePlan> make_decode_plan(const TraceClass& trace_class, const StreamClass& stream_class) {
    TraceIndex index(trace_class);
    DecodePlanner planner(trace_class, stream_class);
    LEAT_TRY(planner.grow(index));
    return planner.plan();
}

}  // namespace leat::ctf
