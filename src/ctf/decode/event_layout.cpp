#include "ctf/decode/event_layout.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "ctf/decode/bit_reader.hpp"

namespace leat::ctf {
namespace {

// Larger arrays are left to FieldDecoder, which refuses those that no memory can hold.
constexpr std::uint64_t kMaxPlainArray = 1U << 20U;  // elements
constexpr std::uint64_t kMaxRun = 1U << 28U;         // bits

bool is_number(const PlanNode& node) { return node.op == PlanNode::Op::kInteger || node.op == PlanNode::Op::kFloat; }

// Bits of an element of an array whose elements are numbers or characters, one right after the other; 0: it is another.
std::uint64_t element_size(std::span<const PlanNode> nodes, const PlanNode& array) {
    if (array.op == PlanNode::Op::kText) return 8;
    const PlanNode& element = nodes[array.first_child];
    const bool is_plain = is_number(element) && element.slot == 0 && element.size % element.alignment == 0;
    return is_plain ? element.size : 0;
}

// Finds out whether an event is for PacketDecoder.
class DecoderNeeds {
  public:
    explicit DecoderNeeds(std::span<const PlanNode> nodes) : nodes_(nodes) {}

    void add(const PlanNode& node) {
        if (node.slot != 0) kept_.insert(node.slot);
        moves_clock_ |= node.is_timestamp;
        if (node.length_slot != 0) asks_elsewhere_ |= !kept_.contains(node.length_slot);
        for (std::uint32_t i = 0; i < node.child_count; ++i) add(nodes_[node.first_child + i]);
    }
    [[nodiscard]] bool are_for_decoder() const { return moves_clock_ || asks_elsewhere_; }

  private:
    std::span<const PlanNode> nodes_;
    std::set<std::uint32_t> kept_;
    bool moves_clock_ = false;
    bool asks_elsewhere_ = false;
};

class Layouter {
  public:
    explicit Layouter(std::span<const PlanNode> nodes) : nodes_(nodes) {}

    void add(std::uint32_t index) {
        const PlanNode& node = nodes_[index];
        const auto op = step_of(nodes_, node);
        if (op != LayoutStep::Op::kNode) ++layout_.count;
        if (op) return add_step(index, *op);
        if (node.op == PlanNode::Op::kArray) layout_.count += node.length;
        if (is_number(node)) return place(index, node.size);
        if (node.op != PlanNode::Op::kStruct) return place(index, node.length * element_size(nodes_, node));
        align(node.alignment);
        for (std::uint32_t i = 0; i < node.child_count; ++i) add(node.first_child + i);
    }

    EventLayout finish() {
        end_run();
        return std::move(layout_);
    }

  private:
    // Within a run, the position is known as far as the alignment of its begin tells.
    void align(std::uint32_t alignment) {
        if (alignment > known_ && run_.field_count == 0 && run_.size == 0) {
            known_ = run_.alignment = alignment;
            has_run_ = true;
        } else if (alignment > known_ || run_.size > kMaxRun) {
            end_run();
            known_ = run_.alignment = alignment;
            has_run_ = true;
        }
        run_.size = aligned(run_.size, alignment);
    }

    void place(std::uint32_t index, std::uint64_t size) {
        align(nodes_[index].alignment);
        has_run_ = true;
        const LayoutField field{index, static_cast<std::uint32_t>(run_.size)};
        layout_.fields.push_back(field);
        ++run_.field_count;
        if (nodes_[index].op == PlanNode::Op::kInteger && nodes_[index].slot != 0) {
            layout_.kept.push_back(field);
            ++run_.kept_count;
        }
        run_.size += size;
    }

    void add_step(std::uint32_t index, LayoutStep::Op op) {
        end_run();
        const PlanNode& node = nodes_[index];
        const std::uint64_t size = op == LayoutStep::Op::kElements ? element_size(nodes_, node) : 0;
        layout_.steps.push_back(
            {.op = op, .alignment = node.alignment, .node = index, .length_slot = node.length_slot, .size = size});
        const bool ends_at_byte =
            op == LayoutStep::Op::kString || (size != 0 && size % 8 == 0 && node.alignment % 8 == 0);
        known_ = run_.alignment = ends_at_byte ? 8 : 1;
    }

    void end_run() {
        if (has_run_) layout_.steps.push_back(run_);
        has_run_ = false;
        known_ = 1;
        run_ = {.first_field = static_cast<std::uint32_t>(layout_.fields.size()),
                .first_kept = static_cast<std::uint32_t>(layout_.kept.size())};
    }

    std::span<const PlanNode> nodes_;
    EventLayout layout_;
    LayoutStep run_;
    bool has_run_ = false;
    std::uint32_t known_ = 1;  // bits: the alignment of the run's begin
};

std::optional<PlainLayout> plain_of(const EventLayout& layout) {
    // The event's context and the rest of it are one half each, and no other steps add to their fields.
    if (layout.is_for_decoder || layout.count > kMaxValues / 2) return std::nullopt;
    PlainLayout plain{.count = static_cast<std::uint32_t>(layout.count)};
    PlainRun* run = &plain.first;
    for (const LayoutStep& step : layout.steps) {
        const bool is_run = step.op == LayoutStep::Op::kRun && step.kept_count == 0 && step.size <= UINT32_MAX;
        if (is_run && run != nullptr)
            *std::exchange(run, nullptr) = {step.alignment, static_cast<std::uint32_t>(step.size)};
        else if (step.op == LayoutStep::Op::kString && step.alignment == 8)
            run = &plain.behind_strings.emplace_back();
        else
            return std::nullopt;
    }
    return plain;
}

}  // namespace

std::optional<LayoutStep::Op> step_of(std::span<const PlanNode> nodes, const PlanNode& field) {
    switch (field.op) {
        case PlanNode::Op::kString:
            return LayoutStep::Op::kString;
        case PlanNode::Op::kText:
        case PlanNode::Op::kArray:
            if (element_size(nodes, field) == 0 || field.length > kMaxPlainArray) return LayoutStep::Op::kNode;
            if (field.length_slot != 0) return LayoutStep::Op::kElements;
            return std::nullopt;
        case PlanNode::Op::kOddInteger:
        case PlanNode::Op::kWideString:
        case PlanNode::Op::kWideText:
        case PlanNode::Op::kVariant:
            return LayoutStep::Op::kNode;
        case PlanNode::Op::kInteger:
        case PlanNode::Op::kFloat:
        case PlanNode::Op::kStruct:
            break;
    }
    return std::nullopt;
}

EventLayout lay_out(std::span<const PlanNode> nodes, std::span<const PlanRoot> scopes, bool is_for_decoder) {
    DecoderNeeds needs(nodes);
    Layouter layouter(nodes);
    for (const PlanRoot& scope : scopes) {
        if (!scope) continue;
        needs.add(nodes[*scope]);
        layouter.add(*scope);
    }
    EventLayout layout = layouter.finish();
    layout.is_for_decoder = is_for_decoder || needs.are_for_decoder();
    layout.plain = plain_of(layout);
    return layout;
}

}  // namespace leat::ctf
