#include "ctf/record_walker.hpp"

#include <cstring>

#include "base/check.hpp"
#include "ctf/record_header.hpp"

namespace leat::ctf {
namespace {

// An unsigned little-endian value of 1 to 8 bytes.
std::uint64_t load(UntrustedBytes bytes, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), size);
    return value;
}

constexpr std::size_t kExtendedTail = 4 + 8;
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
    append_fixed(plan, context_size_);
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
    plan.is_fixed = plan.steps.size() == 1;
    plan.fixed_size = plan.steps.front().size;
}

std::optional<std::size_t> RecordWalker::payload_size(const Plan& plan, UntrustedBytes payload) {
    std::size_t offset = 0;
    for (const Step& step : plan.steps) {
        const std::size_t left = payload.size() - offset;
        if (step.kind == Step::Kind::kFixed) {
            if (step.size > left) return std::nullopt;
            offset += step.size;
        } else if (step.kind == Step::Kind::kString) {
            const void* end = left == 0 ? nullptr : std::memchr(payload.data() + offset, 0, left);
            if (end == nullptr) return std::nullopt;
            offset = static_cast<std::size_t>(static_cast<const std::byte*>(end) - payload.data()) + 1;
        } else {
            if (step.length_size > left) return std::nullopt;
            const std::uint64_t length = load(payload.subspan(offset), step.length_size);
            if (length > (left - step.length_size) / step.size) return std::nullopt;
            offset += step.length_size + length * step.size;
        }
    }
    return offset;
}

std::size_t RecordWalker::record_size(UntrustedBytes bytes) const {
    if (bytes.size() < header_.short_size) return 0;
    const std::uint64_t all_ones = (1U << header_.id_bits) - 1;
    std::uint64_t id = load(bytes, header_.short_size) & all_ones;
    std::size_t offset = header_.short_size;
    if (id == all_ones) {
        offset = header_.extended_tag + kExtendedTail;
        if (bytes.size() < offset) return 0;
        id = load(bytes.subspan(header_.extended_tag), 4);
    }
    if (id >= plans_.size() || !plans_[id].is_known) return 0;
    const Plan& plan = plans_[id];
    if (plan.is_fixed) return plan.fixed_size <= bytes.size() - offset ? offset + plan.fixed_size : 0;
    const auto size = payload_size(plan, bytes.subspan(offset));
    return size ? offset + *size : 0;
}

RecordWalker::Walked RecordWalker::walk(UntrustedBytes records) const {
    Walked walked{0, 0};
    while (walked.bytes < records.size()) {
        const std::size_t size = record_size(records.subspan(walked.bytes));
        if (size == 0) break;
        ++walked.records;
        walked.bytes += size;
    }
    return walked;
}

RecordWalker::Part RecordWalker::walk_part(UntrustedBytes records, std::size_t limit, std::uint64_t previous) const {
    Part part{{0, 0}, previous};
    while (part.bytes < records.size()) {
        const UntrustedBytes rest = records.subspan(part.bytes);
        const std::size_t size = record_size(rest);
        if (size == 0 || (part.records != 0 && part.bytes + size > limit)) break;
        part.last_timestamp = record_timestamp(header_, rest, part.last_timestamp);
        ++part.records;
        part.bytes += size;
    }
    return part;
}

}  // namespace leat::ctf
