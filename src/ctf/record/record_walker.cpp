#include "ctf/record/record_walker.hpp"

#include <bit>
#include <cstring>

#include "base/check.hpp"
#include "base/guess.hpp"
#include "ctf/record/record_header.hpp"
#include "ctf/record/string_size.hpp"

namespace leat::ctf {
namespace {

// An unsigned little-endian value of 1 to 8 bytes.
std::uint64_t load(const std::byte* at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, size);
    return value;
}

// Null: the text, or the value, has no end before `end`.
[[gnu::always_inline]] inline const std::byte* string_end(const std::byte* at, const std::byte* end) {
    const std::uint64_t size = string_size(at, static_cast<std::uint64_t>(end - at));
    return size == 0 ? nullptr : at + size;
}

const std::byte* app_context_end(const std::byte* at, const std::byte* end) {
    if (at == end) return nullptr;
    switch (ring::AppContextTag{static_cast<std::uint8_t>(*at++)}) {
        case ring::AppContextTag::kNone:
            return at;
        case ring::AppContextTag::kInt64:
        case ring::AppContextTag::kUint64:
        case ring::AppContextTag::kDouble:
            return end - at < 8 ? nullptr : at + 8;
        case ring::AppContextTag::kString:
            return string_end(at, end);
    }
    return nullptr;
}

constexpr std::uint64_t kMaxEventId = 1U << 24;
// Of an array; more than fit into any ring.
constexpr std::uint64_t kMaxElements = 1U << 30;
constexpr std::uint64_t kNoId = ~std::uint64_t{0};  // more than a header can hold
// Records after which it is seen anew whether to guess their classes.
constexpr std::uint64_t kStretch = 256;

bool has_whole_bytes(unsigned bits) { return bits >= 8 && bits <= 64 && bits % 8 == 0; }

bool is_number(const FieldClass& field_class) {
    if (const auto* form = field_class.as<IntegerClass>()) return has_whole_bytes(form->size);
    const auto* form = field_class.as<FloatClass>();
    return form != nullptr && has_whole_bytes(form->size);
}

// But for sequences, which come with their lengths.
bool is_written(const FieldClass& field_class) {
    if (const auto* form = field_class.as<EnumClass>()) return has_whole_bytes(form->container.size);
    if (const auto* form = field_class.as<ArrayClass>())
        return form->length <= kMaxElements && is_number(*form->element);
    return field_class.as<StringClass>() != nullptr || is_number(field_class);
}

}  // namespace

Result<void> RecordWalker::check(const EventClass& event_class) {
    const auto refuse = [&event_class] { return corrupt("no event of ours: \"{}\"", event_class.name); };
    if (event_class.id >= kMaxEventId || event_class.context) return refuse();
    if (!event_class.fields) return {};
    const auto& members = event_class.fields->members;
    for (std::size_t i = 0; i < members.size(); ++i) {
        if (!is_written(members[i].field_class)) return refuse();
        const auto* const sequence = i + 1 < members.size() ? members[i + 1].field_class.as<SequenceClass>() : nullptr;
        if (sequence == nullptr) continue;
        if (members[i].field_class.as<IntegerClass>() == nullptr || !is_number(*sequence->element)) return refuse();
        ++i;
    }
    return {};
}

void RecordWalker::append_fixed(Plan& plan, std::uint64_t bytes) {
    if (plan.steps.empty() || plan.steps.back().kind != Step::Kind::kFixed)
        plan.steps.push_back({Step::Kind::kFixed, 0, 0});
    plan.steps.back().size += bytes;
}

void RecordWalker::append(Plan& plan, const FieldClass& field_class) const {
    if (const auto* form = field_class.as<IntegerClass>()) return append_fixed(plan, form->size / 8);
    if (const auto* form = field_class.as<FloatClass>()) return append_fixed(plan, form->size / 8);
    if (const auto* form = field_class.as<EnumClass>()) return append_fixed(plan, form->container.size / 8);
    if (field_class.as<StringClass>() != nullptr) return plan.steps.push_back({Step::Kind::kString, 0, 0});
    const auto element_size = [](const FieldClass& element) -> std::uint64_t {
        if (const auto* form = element.as<FloatClass>()) return form->size / 8;
        const auto* form = element.as<IntegerClass>();
        LEAT_CHECK(form != nullptr);
        return form->size / 8;
    };
    if (const auto* form = field_class.as<ArrayClass>())
        return append_fixed(plan, form->length * element_size(*form->element));
    const auto* form = field_class.as<SequenceClass>();
    LEAT_CHECK(form != nullptr);
    plan.steps.push_back({Step::Kind::kSequence, 0, element_size(*form->element)});
}

void RecordWalker::add(const EventClass& event_class) {
    LEAT_CHECK(event_class.id < kMaxEventId);
    if (plans_.size() <= event_class.id) plans_.resize(event_class.id + 1);
    Plan& plan = plans_[event_class.id];
    plan = {};
    if (context_size_ != 0) append_fixed(plan, context_size_);
    plan.steps.insert(plan.steps.end(), app_contexts_, {Step::Kind::kAppContext, 0, 0});
    const StructClass* fields = event_class.fields ? &*event_class.fields : nullptr;
    for (std::size_t i = 0; fields != nullptr && i < fields->members.size(); ++i) {
        const FieldClass& field_class = fields->members[i].field_class;
        const bool is_length =
            i + 1 < fields->members.size() && fields->members[i + 1].field_class.as<SequenceClass>() != nullptr;
        if (!is_length) {
            append(plan, field_class);
            continue;
        }
        const auto* length = field_class.as<IntegerClass>();
        LEAT_CHECK(length != nullptr && length->size <= 64);
        append(plan, fields->members[++i].field_class);
        plan.steps.back().length_size = static_cast<std::uint8_t>(length->size / 8);
    }
    find_form(plan);
}

void RecordWalker::find_form(Plan& plan) {
    using Kind = Step::Kind;
    const std::vector<Step>& steps = plan.steps;
    const auto is = [&steps](std::size_t step, Kind kind) { return step < steps.size() && steps[step].kind == kind; };
    std::size_t step = 0;
    plan.form = Plan::Form::kFixed;
    if (is(step, Kind::kFixed)) plan.before = steps[step++].size;
    if (is(step, Kind::kString)) {
        plan.form = Plan::Form::kText;
        if (is(++step, Kind::kFixed)) plan.after = steps[step++].size;
    }
    if (step != steps.size()) plan.form = Plan::Form::kSteps;
}

const std::byte* RecordWalker::end_of_steps(const Plan& plan, const std::byte* at, const std::byte* end) {
    for (const Step& step : plan.steps) {
        const auto left = static_cast<std::size_t>(end - at);
        if (step.kind == Step::Kind::kFixed) {
            if (step.size > left) return nullptr;
            at += step.size;
        } else if (step.kind == Step::Kind::kString) {
            at = string_end(at, end);
            if (at == nullptr) return nullptr;
        } else if (step.kind == Step::Kind::kAppContext) {
            at = app_context_end(at, end);
            if (at == nullptr) return nullptr;
        } else {
            if (step.length_size > left) return nullptr;
            const std::uint64_t length = load(at, step.length_size);
            if (length > (left - step.length_size) / step.size) return nullptr;
            at += step.length_size + length * step.size;
        }
    }
    return at;
}

[[gnu::always_inline]] inline const std::byte* RecordWalker::payload_end(const Plan& plan, const std::byte* at,
                                                                         const std::byte* end) {
    if (plan.form == Plan::Form::kSteps) return end_of_steps(plan, at, end);
    if (plan.before > static_cast<std::size_t>(end - at)) return nullptr;
    at += plan.before;
    if (plan.form == Plan::Form::kFixed) return at;
    at = string_end(at, end);
    if (at == nullptr || plan.after > static_cast<std::size_t>(end - at)) return nullptr;
    return at + plan.after;
}

// Up to kStretch records. With kGuesses, the processor takes each for one of the class and the size of the one before,
// and goes on with the next one, whose place it then knows, while it still looks at this one. False: here the walk
// ends.
template <ring::RecordHeaderLayout kHeader, bool kGuesses>
[[gnu::always_inline]] inline bool RecordWalker::walk_stretch(Walk& walk) const {
    constexpr std::size_t kExtendedSize = kHeader.extended_size();
    const std::byte* const end = walk.end;
    const std::byte* at = walk.at;
    std::uint64_t last_timestamp = walk.last_timestamp;
    std::uint64_t last_id = kNoId;
    const Plan* plan = nullptr;  // of the record before
    std::size_t last_size = 0;
    std::uint64_t changes = 0;
    std::uint64_t records = 0;
    for (; records < kStretch && static_cast<std::size_t>(end - at) >= kHeader.short_size; ++records) {
        const std::uint64_t short_form = load(at, kHeader.short_size);
        const std::byte* payload = at + kHeader.short_size;
        std::uint64_t id = short_form & kHeader.all_ones();
        std::uint64_t timestamp = kHeader.short_timestamp(short_form, last_timestamp);
        if (id == kHeader.all_ones()) {
            if (static_cast<std::size_t>(end - at) < kExtendedSize) break;
            id = load(at + kHeader.tag_size, ring::kExtendedIdSize);
            timestamp = kHeader.time_of(load(at + kHeader.extended_time_offset(), kHeader.extended_time_size()));
            payload = at + kExtendedSize;
        }
        if (timestamp < last_timestamp || timestamp > walk.latest) break;
        const std::byte* next = nullptr;
        if (kGuesses && id == last_id) {
            if (last_size <= static_cast<std::size_t>(end - payload)) next = payload + last_size;
            if (plan->form != Plan::Form::kFixed) {
                const std::byte* const real = payload_end(*plan, payload, end);
                if (!is_right(next, real)) {
                    if (real == nullptr) break;
                    next = real;
                    last_size = static_cast<std::size_t>(real - payload);
                }
            }
        } else {
            if (id >= plans_.size() || plans_[id].form == Plan::Form::kUnknown) break;
            plan = &plans_[id];
            next = payload_end(*plan, payload, end);
            if (next == nullptr) break;
            changes += id != last_id ? 1 : 0;
            last_id = id;
            last_size = static_cast<std::size_t>(next - payload);
        }
        if (next == nullptr || (at != walk.begin && static_cast<std::size_t>(next - walk.begin) > walk.limit)) break;
        last_timestamp = timestamp;
        at = next;
    }
    walk.at = at;
    walk.last_timestamp = last_timestamp;
    walk.records += records;
    walk.changes = changes;
    return records == kStretch;
}

// Where classes change often, a guess would be wrong each time. Where sizes do, that costs no more than to wait.
template <ring::RecordHeaderLayout kHeader>
RecordWalker::Part RecordWalker::walk_as(UntrustedBytes records, std::size_t limit, const Times& times) const {
    Walk walk{.begin = records.data(),
              .end = records.data() + records.size(),
              .at = records.data(),
              .limit = limit,
              .latest = times.latest,
              .last_timestamp = kHeader.whole_cycles(times.previous)};
    while (walk.changes <= kStretch / 8 ? walk_stretch<kHeader, true>(walk) : walk_stretch<kHeader, false>(walk))
        continue;
    return {{walk.records, static_cast<std::size_t>(walk.at - walk.begin)}, walk.last_timestamp};
}

RecordWalker::Part RecordWalker::walk_part(UntrustedBytes records, std::size_t limit, const Times& times) const {
    if (header_.id_bits == ring::kCompactHeader.id_bits) return walk_as<ring::kCompactHeader>(records, limit, times);
    if (header_.id_bits == ring::kTinyHeader.id_bits) return walk_as<ring::kTinyHeader>(records, limit, times);
    return walk_as<ring::kLargeHeader>(records, limit, times);
}

}  // namespace leat::ctf
