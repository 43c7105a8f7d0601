#include "ctf/decode/header_form.hpp"

#include <algorithm>

#include "ctf/decode/decode_plan.hpp"

namespace leat::ctf {
namespace {

class Finder {
  public:
    Finder(std::span<const PlanNode> nodes, std::span<const VariantChoice> choices)
        : nodes_(nodes), choices_(choices) {}

    // Whether the field lies in the header where the form can say it.
    bool add(const PlanNode& node) {
        switch (node.op) {
            case PlanNode::Op::kInteger:
                return add_integer(node);
            case PlanNode::Op::kStruct:
                return align(node.alignment) && add_members(node);
            case PlanNode::Op::kVariant:
                return align(node.alignment) && add_choice(node);
            default:
                return false;
        }
    }

    HeaderForm form;

  private:
    bool add_members(const PlanNode& node) {
        const auto members = nodes_.subspan(node.first_child, node.child_count);
        return std::ranges::all_of(members, [this](const PlanNode& member) { return add(member); });
    }

    // Alignments up to that of the header itself are known to hold.
    bool align(std::uint32_t alignment) {
        if (form.size == 0 && form.id_size == 0) form.alignment = std::max(form.alignment, alignment);
        form.size = (form.size + alignment - 1) & ~(alignment - 1);
        return alignment <= form.alignment;
    }

    bool add_integer(const PlanNode& node) {
        if (node.is_big_endian || node.is_signed || node.size == 64 || !align(node.alignment)) return false;
        if (node.role == FieldRole::kEventId && !node.is_timestamp && form.id_size == 0) {
            form.id_offset = form.size;
            form.id_size = node.size;
        } else if (node.is_timestamp && form.time_size == 0) {
            form.time_offset = form.size;
            form.time_size = node.size;
        } else if (node.is_timestamp || node.role != FieldRole::kNone || node.slot != 0) {
            return false;
        }
        form.size += node.size;
        return form.size <= 64;
    }

    // The first option, if it has no id of its own: tracers declare the short one first.
    bool add_choice(const PlanNode& node) {
        if (!has_tag_of_id(node)) return false;
        const VariantChoice& choice = choices_[node.first_choice];
        form.lowest_id = choice.lower;
        form.highest_id = choice.upper;
        return add(nodes_[node.first_child + choice.option]);
    }

    [[nodiscard]] bool has_tag_of_id(const PlanNode& variant) const {
        const auto tag = std::ranges::find_if(nodes_, [&](const PlanNode& node) {
            return node.op == PlanNode::Op::kInteger && node.slot == variant.length_slot;
        });
        const bool is_first = form.lowest_id == 0 && form.highest_id == UINT64_MAX;
        return is_first && variant.tag_labels == 0 && !variant.is_optional && variant.choice_count != 0 &&
               form.id_size != 0 && tag != nodes_.end() && tag->role == FieldRole::kEventId;
    }

    std::span<const PlanNode> nodes_;
    std::span<const VariantChoice> choices_;
};

}  // namespace

HeaderForm find_header_form(std::span<const PlanNode> nodes, std::span<const VariantChoice> choices, PlanRoot header) {
    if (!header) return {};
    Finder finder(nodes, choices);
    // Also what follows the fields, such as an empty struct that is aligned, lies within what is read.
    finder.form.is_known = finder.add(nodes[*header]) && finder.form.alignment % 8 == 0 && finder.form.id_size != 0 &&
                           finder.form.size <= 64;
    return finder.form;
}

}  // namespace leat::ctf
