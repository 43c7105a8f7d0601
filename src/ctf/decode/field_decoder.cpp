#include "ctf/decode/field_decoder.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>

#include "base/utf8.hpp"
#include "ctf/model/clock.hpp"
#include "ctf/record/string_size.hpp"

namespace leat::ctf {
namespace {

// In an honest packet every field takes at least a bit, or is a struct around fields that do. This limit is more than
// any trace needs, and stops arrays of a billion empty structs.
constexpr std::uint64_t kFieldsPerBit = 8;
constexpr std::uint64_t kFieldsPerPacket = 4096;

std::uint64_t most_fields_of(std::uint64_t size_bits) {
    return size_bits < std::numeric_limits<std::uint64_t>::max() / (2 * kFieldsPerBit)
               ? size_bits * kFieldsPerBit + kFieldsPerPacket
               : std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t sign_extended(std::uint64_t value, unsigned size) {
    const unsigned unused = 64 - size;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
}

// The lowest bits in the other order.
std::uint64_t reversed(std::uint64_t bits, unsigned size) {
    std::uint64_t result = 0;
    for (unsigned i = 0; i < size; ++i) result |= (bits >> i & 1U) << (size - 1 - i);
    return result;
}

// Bytes before the first character of zeros; all whole characters if there is none.
std::size_t size_before_nul(std::string_view text, unsigned unit) {
    std::size_t size = 0;
    const auto is_nul = [&] { return text.substr(size, unit).find_first_not_of('\0') == std::string_view::npos; };
    while (text.size() - size >= unit && !is_nul()) size += unit;
    return size;
}

bool is_chosen(const VariantChoice& choice, std::uint64_t tag, bool is_signed) {
    return is_at_most(choice.lower, tag, is_signed) && is_at_most(tag, choice.upper, is_signed);
}

}  // namespace

void FieldDecoder::start_packet(UntrustedBytes bytes, std::uint64_t size_bits) {
    follow_plan();
    reader_ = BitReader(bytes, size_bits);
    roles_seen_ = 0;
    has_clock_ = false;  // its value stays: a narrow timestamp continues where the last packet ended
    if (plan_->has_roles) clock_ = 0;
    if (!texts_.empty()) texts_.clear();
    fields_left_ = fields_at_first_ = most_fields_of(size_bits);
    failure_ = Failure::kNone;
}

// Small packets may be many: each pays for its own fields.
bool FieldDecoder::set_end(std::uint64_t size_bits) {
    reader_.set_end(size_bits);
    const std::uint64_t spent = fields_at_first_ - fields_left_;
    const std::uint64_t most = most_fields_of(size_bits);
    if (spent > most) return false;
    fields_left_ = most - spent;
    return true;
}

Result<void> FieldDecoder::decode(PlanRoot root, std::vector<FieldValue>& values, std::uint64_t max_values) {
    follow_plan();
    max_values_ = max_values;
    const bool is_decoded = !root || field(plan_->nodes[*root], values);
    max_values_ = kMaxValues;
    if (is_decoded) return {};
    switch (failure_) {
        case Failure::kTooManyFields:
            return corrupt("more fields than its bytes can hold");
        case Failure::kTooManyValues:
            return corrupt("more than {} fields", max_values);
        case Failure::kNoOption:
            return corrupt("the tag of a variant chooses none of its options");
        case Failure::kOpenString:
            return corrupt("a string does not end before the packet does");
        case Failure::kTooLarge:
            return corrupt("an integer of variable length has more than 64 bits");
        default:
            return corrupt("it does not end before the packet does");
    }
}

bool FieldDecoder::skip_other(const LayoutStep& step) {
    if (step.op == LayoutStep::Op::kString) return skip_string();
    if (step.op == LayoutStep::Op::kElements) return skip_elements(step);
    skipped_.clear();
    const std::size_t texts = texts_.size();
    const bool is_read = field(plan_->nodes[step.node], skipped_);
    forget_texts(texts);
    give_back_large(skipped_);
    return is_read;
}

void FieldDecoder::keep_of_run(const EventLayout& layout, const LayoutStep& run) {
    for (std::uint32_t i = 0; i < run.kept_count; ++i) {
        const LayoutField& kept = layout.kept[run.first_kept + i];
        const PlanNode& node = plan_->nodes[kept.node];
        slots_[node.slot] = number_at(node, begin_of_step_ + kept.offset);
    }
}

std::uint64_t FieldDecoder::number_at(const PlanNode& node, std::uint64_t position) const {
    BitReader reader = reader_;
    reader.seek(position);
    const std::uint64_t value = reader.read(node.size, node.is_big_endian);
    return node.is_signed ? sign_extended(value, node.size) : value;
}

FieldValue FieldDecoder::value_at(const PlanNode& node, std::uint64_t position) const {
    FieldValue value;
    value.field_class = node.field_class;
    if (node.op == PlanNode::Op::kFloat)
        value.real = real_at(node, position);
    else
        value.number = number_at(node, position);
    return value;
}

bool FieldDecoder::skip_string() {
    const std::uint64_t size = string_size(reader_.here(), reader_.remaining() / 8);
    reader_.skip(size * 8);
    return size != 0;
}

bool FieldDecoder::skip_elements(const LayoutStep& step) {
    const std::uint64_t length = slots_[step.length_slot];
    const bool is_text = plan_->nodes[step.node].op == PlanNode::Op::kText;
    if (length > reader_.remaining() / step.size || !spend(is_text ? 0 : length)) return false;
    reader_.skip(length * step.size);
    return true;
}

std::optional<std::uint64_t> FieldDecoder::role(FieldRole role) const {
    const auto index = static_cast<unsigned>(role);
    if ((roles_seen_ >> index & 1U) == 0) return std::nullopt;
    return roles_[index];
}

bool FieldDecoder::field(const PlanNode& node, std::vector<FieldValue>& values) {
    if (!spend(1)) return false;
    if (!reader_.align(node.alignment)) return fail_with(Failure::kNoMoreBits);
    switch (node.op) {
        case PlanNode::Op::kInteger:
            return integer(node, values);
        case PlanNode::Op::kOddInteger:
            return odd_integer(node, values);
        case PlanNode::Op::kFloat:
            return real(node, values);
        case PlanNode::Op::kString:
            return string(node, values);
        case PlanNode::Op::kWideString:
            return wide_string(node, values);
        case PlanNode::Op::kWideText:
            return wide_text(node, values);
        case PlanNode::Op::kText:
            return text(node, values);
        case PlanNode::Op::kArray:
            return array(node, values);
        case PlanNode::Op::kStruct:
            return structure(node, values);
        case PlanNode::Op::kVariant:
            return variant(node, values);
    }
    return false;
}

bool FieldDecoder::integer(const PlanNode& node, std::vector<FieldValue>& values) {
    if (reader_.remaining() < node.size) return fail_with(Failure::kNoMoreBits);
    return take_integer(node, reader_.read(node.size, node.is_big_endian), node.size, values);
}

bool FieldDecoder::take_integer(const PlanNode& node, std::uint64_t value, unsigned bits,
                                std::vector<FieldValue>& values) {
    if (node.is_timestamp) {
        clock_ = extend_timestamp(clock_, value, bits);
        has_clock_ = true;
    }
    if (node.is_signed) value = sign_extended(value, bits);
    keep(node, value);
    FieldValue decoded;
    decoded.number = value;
    return append(node, decoded, values);
}

bool FieldDecoder::odd_integer(const PlanNode& node, std::vector<FieldValue>& values) {
    const IntegerClass& integer = *integer_of(*node.field_class);
    if (integer.is_variable) return variable_integer(node, values);
    if (reader_.remaining() < node.size) return fail_with(Failure::kNoMoreBits);
    std::uint64_t bits = reader_.read(node.size, node.is_big_endian);
    if (integer.is_reversed) bits = reversed(bits, node.size);
    if (integer.kind == IntegerKind::kBoolean) bits = bits != 0 ? 1 : 0;
    return take_integer(node, bits, node.size, values);
}

// LEB128: seven bits a byte, the lowest first; the highest bit says that another byte follows ([CTF-2],
// "Variable-length integer field decoding").
bool FieldDecoder::variable_integer(const PlanNode& node, std::vector<FieldValue>& values) {
    constexpr unsigned kBitsInByte = 7;
    std::uint64_t value = 0;
    unsigned bits = 0;
    for (bool has_more = true; has_more; bits += kBitsInByte) {
        if (reader_.remaining() < 8) return fail_with(Failure::kNoMoreBits);
        const std::uint64_t byte = reader_.read(8, false);
        has_more = (byte & 0x80U) != 0;
        const std::uint64_t part = byte & 0x7FU;
        // One bit is left for the tenth byte. Those above it can only repeat the sign.
        const bool fits = node.is_signed ? part == 0 || part == 0x7FU : part <= 1;
        if (bits == 63 && (has_more || !fits)) return fail_with(Failure::kTooLarge);
        value |= part << bits;
    }
    return take_integer(node, value, std::min(bits, 64U), values);
}

bool FieldDecoder::real(const PlanNode& node, std::vector<FieldValue>& values) {
    if (reader_.remaining() < node.size) return fail_with(Failure::kNoMoreBits);
    FieldValue decoded;
    decoded.real = real_of(reader_.read(node.size, node.is_big_endian), node.size);
    return append(node, decoded, values);
}

double FieldDecoder::real_of(std::uint64_t bits, unsigned size) {
    return size == 32 ? std::bit_cast<float>(static_cast<std::uint32_t>(bits)) : std::bit_cast<double>(bits);
}

bool FieldDecoder::string(const PlanNode& node, std::vector<FieldValue>& values) {
    const char* const begin = reinterpret_cast<const char*>(reader_.here());
    const std::uint64_t size = string_size(reader_.here(), reader_.remaining() / 8);
    if (size == 0) return fail_with(Failure::kOpenString);
    reader_.skip(size * 8);
    return append_text(node, {begin, size - 1}, values);
}

// Text ends at its first NUL. The bytes after it are skipped.
bool FieldDecoder::text(const PlanNode& node, std::vector<FieldValue>& values) {
    const std::uint64_t length = length_of(node);
    if (length > reader_.remaining() / 8) return fail_with(Failure::kNoMoreBits);
    const char* const begin = reinterpret_cast<const char*>(reader_.here());
    const std::size_t size = ::strnlen(begin, length);
    reader_.skip(length * 8);
    return append_text(node, {begin, size}, values);
}

// Up to a character of zeros, counted from the begin of the field.
bool FieldDecoder::wide_string(const PlanNode& node, std::vector<FieldValue>& values) {
    const Encoding encoding = node.field_class->as<StringClass>()->encoding;
    const std::string_view rest(reinterpret_cast<const char*>(reader_.here()), reader_.remaining() / 8);
    const std::size_t size = size_before_nul(rest, unit_size(encoding));
    if (size + unit_size(encoding) > rest.size()) return fail_with(Failure::kOpenString);
    reader_.skip((size + unit_size(encoding)) * 8);
    return append_wide_text(node, rest.substr(0, size), encoding, values);
}

bool FieldDecoder::wide_text(const PlanNode& node, std::vector<FieldValue>& values) {
    const Encoding encoding = integer_of(*plan_->nodes[node.first_child].field_class)->encoding;
    const std::uint64_t length = length_of(node);
    if (length > reader_.remaining() / 8) return fail_with(Failure::kNoMoreBits);
    const std::string_view bytes(reinterpret_cast<const char*>(reader_.here()), length);
    reader_.skip(length * 8);
    return append_wide_text(node, bytes.substr(0, size_before_nul(bytes, unit_size(encoding))), encoding, values);
}

bool FieldDecoder::append_wide_text(const PlanNode& node, std::string_view text, Encoding encoding,
                                    std::vector<FieldValue>& values) {
    if (text.empty()) return append_text(node, text, values);
    texts_.push_back(
        wide_to_utf8(text, unit_size(encoding), encoding == Encoding::kUtf16Be || encoding == Encoding::kUtf32Be));
    return append_text(node, texts_.back(), values);
}

bool FieldDecoder::array(const PlanNode& node, std::vector<FieldValue>& values) {
    const std::uint64_t length = length_of(node);
    if (length > max_values_) return fail_with(Failure::kTooManyValues);
    if (!append(node, {}, values)) return false;
    if (node.is_shown) values.back().size = static_cast<std::uint32_t>(length);
    const PlanNode& element = plan_->nodes[node.first_child];
    for (std::uint64_t i = 0; i < length; ++i)
        if (!field(element, values)) return false;
    return true;
}

bool FieldDecoder::structure(const PlanNode& node, std::vector<FieldValue>& values) {
    const std::size_t index = values.size();
    if (!append(node, {}, values)) return false;
    std::uint32_t shown = 0;
    for (std::uint32_t i = 0; i < node.child_count; ++i) {
        const PlanNode& member = plan_->nodes[node.first_child + i];
        if (!field(member, values)) return false;
        shown += member.is_shown ? 1 : 0;
    }
    if (node.is_shown) values[index].size = shown;
    return true;
}

bool FieldDecoder::variant(const PlanNode& node, std::vector<FieldValue>& values) {
    const PlanNode* const option = chosen_option(node);
    if (option == nullptr) return node.is_optional ? append(node, {}, values) : fail_with(Failure::kNoOption);
    if (!append(node, {}, values)) return false;
    if (node.is_shown) values.back().size = option->is_shown ? 1 : 0;
    return field(*option, values);
}

const PlanNode* FieldDecoder::chosen_option(const PlanNode& node) const {
    const std::uint64_t tag = slots_[node.length_slot];
    if (node.tag_labels != 0) return option_of_label(node, tag);
    if (node.has_sorted_choices) return option_of_value(node, tag);
    for (std::uint32_t i = 0; i < node.choice_count; ++i) {
        const VariantChoice& choice = plan_->choices[node.first_choice + i];
        if (is_chosen(choice, tag, node.is_signed)) return &plan_->nodes[node.first_child + choice.option];
    }
    return nullptr;
}

const PlanNode* FieldDecoder::option_of_value(const PlanNode& node, std::uint64_t tag) const {
    const auto choices = std::span(plan_->choices).subspan(node.first_choice, node.choice_count);
    const auto is_before = [&](const VariantChoice& choice) { return !is_at_most(tag, choice.upper, node.is_signed); };
    const auto choice = std::ranges::partition_point(choices, is_before);
    if (choice == choices.end() || !is_chosen(*choice, tag, node.is_signed)) return nullptr;
    return &plan_->nodes[node.first_child + choice->option];
}

// The first option that one of the tag's labels chooses.
const PlanNode* FieldDecoder::option_of_label(const PlanNode& node, std::uint64_t tag) const {
    const auto choices = std::span(plan_->label_choices).subspan(node.first_choice, node.choice_count);
    std::uint32_t option = node.child_count;
    for (const std::uint32_t label : plan_->tag_labels[node.tag_labels]->find(tag).labels) {
        const auto choice = std::ranges::lower_bound(choices, label, {}, &PlanLabelChoice::label);
        if (choice != choices.end() && choice->label == label) option = std::min(option, choice->option);
    }
    return option == node.child_count ? nullptr : &plan_->nodes[node.first_child + option];
}

std::uint64_t FieldDecoder::length_of(const PlanNode& node) const {
    return node.length_slot == 0 ? node.length : slots_[node.length_slot];
}

void FieldDecoder::keep(const PlanNode& node, std::uint64_t value) {
    slots_[node.slot] = value;  // slot 0 is for values that nobody asks for
    if (node.role == FieldRole::kNone) return;
    const auto index = static_cast<unsigned>(node.role);
    roles_[index] = value;
    roles_seen_ |= 1U << index;
}

bool FieldDecoder::append(const PlanNode& node, const FieldValue& value, std::vector<FieldValue>& values) {
    if (!node.is_shown) return true;
    if (values.size() == max_values_) return fail_with(Failure::kTooManyValues);
    FieldValue& appended = values.emplace_back(value);
    appended.field_class = node.field_class;
    appended.name = node.name;
    return true;
}

bool FieldDecoder::append_text(const PlanNode& node, std::string_view text, std::vector<FieldValue>& values) {
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) return fail_with(Failure::kTooManyFields);
    FieldValue value;
    value.text = text.data();
    value.size = static_cast<std::uint32_t>(text.size());
    value.is_text = true;
    return append(node, value, values);
}

}  // namespace leat::ctf
