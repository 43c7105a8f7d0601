#include "viewer/sink/line_program.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "viewer/sink/field_json.hpp"

namespace leat::viewer {
namespace {

using ctf::LayoutStep;
using ctf::PlanNode;

// Follows the fields in the order in which they were laid out.
class ProgramBuilder {
  public:
    ProgramBuilder(const ctf::DecodePlan& plan, const ctf::EventLayout& layout, const TextOptions& options)
        : plan_(plan), layout_(layout), options_(options) {}

    void literal(std::string_view text) { text_ += text; }
    void packet_context() {
        if (!is_shown(plan_, plan_.packet_context)) return;
        begin_scope(kPacketContextScope);
        add({.kind = LineOp::Kind::kPacketContext});
        program_.fixed_size += ShortText::kMostSize;  // one that is short is written among the numbers
    }
    // Its steps are passed over in any case.
    void event_context() {
        if (!plan_.event_context) return;
        if (is_shown(plan_, plan_.event_context)) begin_scope(kEventContextScope);
        add({.kind = LineOp::Kind::kEventContext});
    }
    void fields_of_context() {
        if (!plan_.event_context) return;
        has_names_ = options_.names_context;
        field(*plan_.event_context, is_shown(plan_, plan_.event_context));
        // What follows begins where the last step ends, also if that only aligns.
        while (next_step_ < layout_.steps.size()) begin_run();
    }
    void scope(const ScopeName& name, ctf::PlanRoot root, bool has_names) {
        if (!root) return;
        has_names_ = has_names;
        const bool is_shown = plan_.nodes[*root].is_shown;
        if (is_shown) begin_scope(name);
        field(*root, is_shown);
    }
    LineProgram finish() {
        add({});
        program_.literals.append(kTextPiece, '\0');
        program_.fixed_size += program_.literals.size();
        return std::move(program_);
    }

  private:
    void begin_scope(const ScopeName& name) {
        if (is_json_) {
            literal(fmt::format(",\"{}\":", name.json));
            return;
        }
        if (std::exchange(has_scope_, true)) literal(", ");
        if (!options_.names_scope) return;
        literal(options_.colors.header);
        literal(name.text);
        literal(options_.colors.end);
        literal(" = ");
    }

    void field(std::uint32_t index, bool is_shown) {
        const PlanNode& node = plan_.nodes[index];
        if (const auto step = ctf::step_of(plan_.nodes, node))
            field_of_step(index, is_shown, *step);
        else if (node.op == PlanNode::Op::kStruct)
            members(node, is_shown);
        else
            field_of_run(index, is_shown);
    }

    void members(const PlanNode& node, bool is_shown) {
        if (is_shown) literal(is_json_ ? "{" : "{ ");
        std::uint32_t shown = 0;
        for (std::uint32_t i = 0; i < node.child_count; ++i) {
            const PlanNode& member = plan_.nodes[node.first_child + i];
            const bool is_member_shown = is_shown && member.is_shown;
            if (is_member_shown) {
                if (shown++ != 0) literal(is_json_ ? "," : ", ");
                name(member.name);
            }
            field(node.first_child + i, is_member_shown);
        }
        if (is_shown) literal(shown > 0 && !is_json_ ? " }" : "}");
    }

    void name(std::string_view name) {
        if (is_json_) {
            TextBuffer quoted(-1);
            append_json_text(quoted, name);
            literal(quoted.text());
            literal(":");
            return;
        }
        if (!has_names_ || name.empty()) return;
        literal(options_.colors.field);
        literal(name);
        literal(options_.colors.end);
        literal(" = ");
    }

    void field_of_run(std::uint32_t index, bool is_shown) {
        while (next_field_ == fields_end_) begin_run();
        const ctf::LayoutField& field = layout_.fields[next_field_++];
        if (!is_shown) return;
        const LineOp::Kind kind = kind_in_run(plan_.nodes[index]);
        if (kind == LineOp::Kind::kNumber || kind == LineOp::Kind::kArray)
            add_value({.kind = kind, .offset = field.offset, .node = index});
        else if (run_alignment_ % 8 == 0 && field.offset % 8 == 0)
            add_value({.kind = kind, .offset = field.offset / 8, .node = index});
        else
            add_value({.kind = LineOp::Kind::kNumber, .offset = field.offset, .node = index});
    }

    void begin_run() {
        const LayoutStep& run = layout_.steps[next_step_++];
        next_field_ = run.first_field;
        fields_end_ = run.first_field + run.field_count;
        run_alignment_ = run.alignment;
        add({.kind = LineOp::Kind::kStep});
    }

    // What is not shown is passed over all the same.
    void field_of_step(std::uint32_t index, bool is_shown, LayoutStep::Op step) {
        while (layout_.steps[next_step_].op == LayoutStep::Op::kRun) begin_run();
        ++next_step_;
        if (is_shown)
            add_value({.kind = kind_of(step), .node = index});
        else
            add({.kind = LineOp::Kind::kStep, .node = index});
    }

    static LineOp::Kind kind_of(LayoutStep::Op step) {
        switch (step) {
            case LayoutStep::Op::kString:
                return LineOp::Kind::kString;
            case LayoutStep::Op::kElements:
                return LineOp::Kind::kElements;
            case LayoutStep::Op::kNode:
                return LineOp::Kind::kNode;
            case LayoutStep::Op::kRun:
                break;
        }
        return LineOp::Kind::kStep;
    }

    [[nodiscard]] LineOp::Kind kind_in_run(const PlanNode& node) const {
        if (node.op == PlanNode::Op::kText || node.op == PlanNode::Op::kArray) return LineOp::Kind::kArray;
        const auto* integer = node.field_class->as<ctf::IntegerClass>();
        const bool is_decimal = integer != nullptr && (is_json_ || integer->base == ctf::DisplayBase::kDecimal);
        if (!is_decimal || node.is_big_endian) return LineOp::Kind::kNumber;
        switch (node.size) {
            case 8:
                return node.is_signed ? LineOp::Kind::kSigned8 : LineOp::Kind::kUnsigned8;
            case 16:
                return node.is_signed ? LineOp::Kind::kSigned16 : LineOp::Kind::kUnsigned16;
            case 32:
                return node.is_signed ? LineOp::Kind::kSigned32 : LineOp::Kind::kUnsigned32;
            case 64:
                return node.is_signed ? LineOp::Kind::kSigned64 : LineOp::Kind::kUnsigned64;
            default:
                return LineOp::Kind::kNumber;
        }
    }

    // Decoded values have their colours from append_fields().
    void add_value(LineOp op) {
        const bool is_array = op.kind == LineOp::Kind::kArray || op.kind == LineOp::Kind::kElements;
        const bool is_decoded = op.kind == LineOp::Kind::kNumber || op.kind == LineOp::Kind::kNode ||
                                (is_array && plan_.nodes[op.node].op != PlanNode::Op::kText);
        if (!is_decoded) literal(options_.colors.value);
        add(op);
        if (!is_decoded) literal(options_.colors.end);
    }

    void add(LineOp op) {
        op.literal = static_cast<std::uint32_t>(program_.literals.size());
        op.literal_size = static_cast<std::uint32_t>(text_.size());
        op.has_names = has_names_;
        program_.literals += text_;
        program_.fixed_size += kMaxDecimalSize;
        text_.clear();
        program_.ops.push_back(op);
    }

    const ctf::DecodePlan& plan_;
    const ctf::EventLayout& layout_;
    const TextOptions& options_;
    const bool is_json_ = options_.format == LineFormat::kJson;
    LineProgram program_;
    std::string text_;  // the next literal
    bool has_scope_ = false;
    bool has_names_ = true;
    std::size_t next_step_ = 0;
    std::uint32_t run_alignment_ = 1;
    std::uint32_t next_field_ = 0;
    std::uint32_t fields_end_ = 0;
};

}  // namespace

bool is_shown(const ctf::DecodePlan& plan, ctf::PlanRoot scope) { return scope && plan.nodes[*scope].is_shown; }

LineProgram make_line_program(const ctf::DecodePlan& plan, const ctf::EventPlan& event, std::string_view name,
                              const TextOptions& options) {
    ProgramBuilder builder(plan, event.layout, options);
    builder.literal(name);
    builder.packet_context();
    builder.event_context();
    builder.scope(kSpecificContextScope, event.context, options.names_context);
    builder.scope(kPayloadScope, event.fields, options.names_payload);
    builder.literal(options.format == LineFormat::kJson ? "}\n" : "\n");
    return builder.finish();
}

LineProgram make_context_program(const ctf::DecodePlan& plan, const TextOptions& options) {
    ProgramBuilder builder(plan, plan.context_layout, options);
    builder.fields_of_context();
    return builder.finish();
}

}  // namespace leat::viewer
