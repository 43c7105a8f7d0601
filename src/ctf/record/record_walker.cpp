#include "ctf/record/record_walker.hpp"

#include <cstring>

#include "base/check.hpp"
#include "ctf/record/record_header.hpp"

namespace leat::ctf {
namespace {

// An unsigned little-endian value of 1 to 8 bytes.
std::uint64_t load(const std::byte* at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, size);
    return value;
}

constexpr std::uint64_t kMaxEventId = 1U << 24;

}  // namespace

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
    plan.is_known = true;
    if (context_size_ != 0) append_fixed(plan, context_size_);
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
    const bool has_one_step = plan.steps.size() == 1 && plan.steps.front().kind == Step::Kind::kFixed;
    plan.is_fixed = plan.steps.empty() || has_one_step;
    plan.fixed_size = has_one_step ? plan.steps.front().size : 0;
}

const std::byte* RecordWalker::payload_end(const Plan& plan, const std::byte* at, const std::byte* end) {
    for (const Step& step : plan.steps) {
        const auto left = static_cast<std::size_t>(end - at);
        if (step.kind == Step::Kind::kFixed) {
            if (step.size > left) return nullptr;
            at += step.size;
        } else if (step.kind == Step::Kind::kString) {
            const void* zero = left == 0 ? nullptr : std::memchr(at, 0, left);
            if (zero == nullptr) return nullptr;
            at = static_cast<const std::byte*>(zero) + 1;
        } else {
            if (step.length_size > left) return nullptr;
            const std::uint64_t length = load(at, step.length_size);
            if (length > (left - step.length_size) / step.size) return nullptr;
            at += step.length_size + length * step.size;
        }
    }
    return at;
}

template <ring::RecordHeaderLayout kHeader>
RecordWalker::Part RecordWalker::walk_as(UntrustedBytes records, std::size_t limit, const Times& times) const {
    constexpr std::size_t kExtendedSize = kHeader.extended_size();
    const std::byte* const begin = records.data();
    const std::byte* const end = begin + records.size();
    const std::byte* at = begin;
    Part part{{0, 0}, times.previous};
    while (static_cast<std::size_t>(end - at) >= kHeader.short_size) {
        const std::uint64_t short_form = load(at, kHeader.short_size);
        const std::byte* payload = at + kHeader.short_size;
        std::uint64_t id = short_form & kHeader.all_ones();
        std::uint64_t timestamp = kHeader.short_timestamp(short_form, part.last_timestamp);
        if (id == kHeader.all_ones()) {
            if (static_cast<std::size_t>(end - at) < kExtendedSize) break;
            id = load(at + kHeader.tag_size, ring::kExtendedIdSize);
            timestamp = load(at + kHeader.extended_time_offset(), ring::kExtendedTimeSize);
            payload = at + kExtendedSize;
        }
        if (timestamp < part.last_timestamp || timestamp > times.latest) break;
        if (id >= plans_.size() || !plans_[id].is_known) break;
        const Plan& plan = plans_[id];
        const std::byte* next = nullptr;
        if (!plan.is_fixed)
            next = payload_end(plan, payload, end);
        else if (plan.fixed_size <= static_cast<std::size_t>(end - payload))
            next = payload + plan.fixed_size;
        if (next == nullptr || (part.records != 0 && static_cast<std::size_t>(next - begin) > limit)) break;
        part.last_timestamp = timestamp;
        ++part.records;
        at = next;
    }
    part.bytes = static_cast<std::size_t>(at - begin);
    return part;
}

RecordWalker::Part RecordWalker::walk_part(UntrustedBytes records, std::size_t limit, const Times& times) const {
    if (header_.id_bits == ring::kCompactHeader.id_bits) return walk_as<ring::kCompactHeader>(records, limit, times);
    return walk_as<ring::kLargeHeader>(records, limit, times);
}

}  // namespace leat::ctf
