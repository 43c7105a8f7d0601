#include "viewer/sink/line_renderer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ctf/model/log_level.hpp"
#include "viewer/merge/trace_name.hpp"
#include "viewer/sink/field_json.hpp"
#include "viewer/sink/field_text.hpp"

namespace leat::viewer {
namespace {

// Of what may grow as long as the program runs; what is forgotten is made anew.
constexpr std::size_t kMaxPlans = 4096;
constexpr std::size_t kMaxContexts = 65536;

// At least so many, with zeros before them.
constexpr std::size_t kCyclesDigits = 20;
constexpr std::size_t kDeltaDigits = 12;
constexpr std::size_t kLongestTimes = TimeText::kMaxSize + 256;

std::string log_level_text(const ctf::EventClass& event_class) {
    const std::optional<std::int64_t> level = event_class.log_level;
    if (!level || *level < 0 || *level >= static_cast<std::int64_t>(ctf::kLogLevels.size())) return {};
    return fmt::format("{} ({})", ctf::kLogLevels[static_cast<std::size_t>(*level)], *level);
}

char* write_text(char* at, std::string_view text) { return std::copy(text.begin(), text.end(), at); }

char* write_digits(char* at, std::uint64_t number, std::size_t least) {
    const fmt::format_int digits(number);
    if (digits.size() < least) at = std::fill_n(at, least - digits.size(), '0');
    return std::copy_n(digits.data(), digits.size(), at);
}

template <class T>
char* write_number(char* at, const std::byte* from) {
    T number = 0;
    std::memcpy(&number, from, sizeof number);
    if constexpr (std::is_signed_v<T>)
        return write_decimal(at, std::int64_t{number});
    else
        return write_decimal(at, std::uint64_t{number});
}

bool is_decimal(LineOp::Kind kind) { return LineOp::Kind::kUnsigned8 <= kind && kind <= LineOp::Kind::kSigned64; }

char* write_number(char* at, LineOp::Kind kind, const std::byte* from) {
    switch (kind) {
        case LineOp::Kind::kUnsigned8:
            return write_number<std::uint8_t>(at, from);
        case LineOp::Kind::kUnsigned16:
            return write_number<std::uint16_t>(at, from);
        case LineOp::Kind::kUnsigned32:
            return write_number<std::uint32_t>(at, from);
        case LineOp::Kind::kUnsigned64:
            return write_number<std::uint64_t>(at, from);
        case LineOp::Kind::kSigned8:
            return write_number<std::int8_t>(at, from);
        case LineOp::Kind::kSigned16:
            return write_number<std::int16_t>(at, from);
        case LineOp::Kind::kSigned32:
            return write_number<std::int32_t>(at, from);
        case LineOp::Kind::kSigned64:
            return write_number<std::int64_t>(at, from);
        default:
            return at;
    }
}

}  // namespace

LineRenderer::LineRenderer(const TextOptions& options)
    : options_(options), is_json_(options.format == LineFormat::kJson), time_text_(options) {
    const auto begin = [this](std::string_view name, std::string_view otherwise) {
        return options_.names_header ? header_name(name) : std::string(otherwise);
    };
    before_time_ = PaddedText(begin("timestamp", "[") + std::string(options.colors.time));
    behind_time_ = PaddedText(
        fmt::format("{}{}{}", options.colors.end, name_or(", ", "] "), options.has_delta ? begin("delta", "(") : ""));
    behind_delta_ = PaddedText(name_or(", ", ") "));
}

Result<void> LineRenderer::append(TextBuffer& buffer, const PacketView& packet, const ctf::EventPlace& place,
                                  const std::optional<Moment>& previous) {
    const std::size_t begin = buffer.text().size();
    LEAT_TRY(append_unchecked(buffer, packet, place, previous));
    if (packet.is_whole()) return {};
    buffer.cut(begin);
    return changed(packet);
}

// Each step of a line takes few instructions, so most are compiled into this function: calls would take more.
Result<void> LineRenderer::append_unchecked(TextBuffer& buffer, const PacketView& packet, const ctf::EventPlace& place,
                                            const std::optional<Moment>& previous) {
    PlanState& state = enter(packet);
    const std::size_t begin = buffer.text().size();
    const Moment moment{place.time_ns, place.cycles};
    if (is_json_)
        begin_json(buffer, packet, moment);
    else if (packet.plan->clock != nullptr)
        times(buffer, moment, previous);
    auto appended = fields(buffer, state, packet, place);
    if (!appended) buffer.cut(begin);
    return appended;
}

// Packets of many streams may alternate, and several may have one plan.
[[gnu::always_inline]] inline LineRenderer::PlanState& LineRenderer::enter(const PacketView& packet) {
    entered_ = &recent_.of(packet.number);
    if (entered_->state == nullptr) {
        PlanState& state = state_of(packet);
        entered_ = &recent_.of(packet.number);
        entered_->state = &state;
    }
    PlanState& state = *entered_->state;
    if (state.packet != packet.number) {
        state.packet = packet.number;
        state.decoder.start_packet(packet.bytes, packet.content_bits);
    }
    return state;
}

LineRenderer::PlanState& LineRenderer::state_of(const PacketView& packet) {
    auto found = plans_.find(packet.plan->number);
    if (found == plans_.end()) {
        if (plans_.size() >= kMaxPlans) {
            plans_.clear();
            recent_.forget();
        }
        found =
            plans_
                .emplace(packet.plan->number, std::make_unique<PlanState>(*packet.plan, head_of(packet),
                                                                          make_context_program(*packet.plan, options_)))
                .first;
    }
    return *found->second;
}

void LineRenderer::begin_json(TextBuffer& buffer, const PacketView& packet, const Moment& moment) {
    if (packet.plan->clock == nullptr) return buffer.append('{');
    char* at = write_text(buffer.reserve(kLongestTimes), "{\"time\":\"");
    at = write_text(time_text_.write(at, moment.time_ns), "Z\",\"time_ns\":");
    at = write_decimal(at, moment.time_ns);
    *at++ = ',';
    buffer.set_end(at);
}

void LineRenderer::append_values(TextBuffer& buffer, std::span<const ctf::FieldValue> values, bool has_names) const {
    is_json_ ? append_json(buffer, values) : append_fields(buffer, values, has_names, options_.colors);
}

void LineRenderer::append_string(TextBuffer& buffer, std::string_view text) const {
    is_json_ ? append_json_text(buffer, text) : append_quoted(buffer, text);
}

[[gnu::always_inline]] inline void LineRenderer::times(TextBuffer& buffer, const Moment& moment,
                                                       const std::optional<Moment>& previous) {
    char* at = before_time_.write(buffer.reserve(kLongestTimes));
    at = options_.has_cycles ? write_digits(at, moment.cycles, kCyclesDigits) : time_text_.write(at, moment.time_ns);
    at = behind_time_.write(at);
    if (options_.has_delta) at = behind_delta_.write(write_delta(at, moment, previous));
    buffer.set_end(at);
}

std::string LineRenderer::header_name(std::string_view name) const {
    return fmt::format("{}{}{} = ", options_.colors.header, name, options_.colors.end);
}

[[gnu::always_inline]] inline char* LineRenderer::write_delta(char* at, const Moment& moment,
                                                              const std::optional<Moment>& previous) const {
    if (options_.has_cycles) {
        // With several clocks, cycles may go back. babeltrace2 takes one cycle back for an unknown time.
        const std::optional<std::uint64_t> delta =
            previous ? std::optional(moment.cycles - previous->cycles) : std::nullopt;
        if (!delta || *delta == UINT64_MAX) return write_text(at, "+????????????");
        *at++ = '+';
        return write_digits(at, *delta, kDeltaDigits);
    }
    if (!previous) return write_text(at, "+?.?????????");
    // Time goes back in live sessions only.
    const auto [earlier, later] = std::minmax(moment.time_ns, previous->time_ns);
    *at++ = moment.time_ns < previous->time_ns ? '-' : '+';
    return write_seconds(at, static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier));
}

[[gnu::always_inline]] inline Result<void> LineRenderer::fields(TextBuffer& buffer, PlanState& state,
                                                                const PacketView& packet,
                                                                const ctf::EventPlace& place) {
    const ctf::EventPlan& event = packet.plan->events[place.event];
    buffer.append(state.head);
    if (event.layout.is_for_decoder) return decoded(buffer, state, packet, place);
    state.decoder.seek(place.payload);
    return carry_out(program_of(state, packet, place.event), event.layout, buffer, state, packet);
}

Result<void> LineRenderer::carry_out(const LineProgram& program, const ctf::EventLayout& layout, TextBuffer& buffer,
                                     PlanState& state, const PacketView& packet) {
    ctf::FieldDecoder& decoder = state.decoder;
    std::size_t step = 0;
    char* at = buffer.reserve(program.fixed_size);
    const std::byte* run = nullptr;
    for (const LineOp& op : program.ops) {
        at = write_in_pieces(at, program.literals.data() + op.literal, op.literal_size);
        if (op.kind == LineOp::Kind::kStep) {
            if (!decoder.skip(layout, layout.steps[step++])) return changed(packet);
            run = decoder.bytes_of_step();
        } else if (is_decimal(op.kind)) {
            at = write_number(at, op.kind, run + op.offset);
        } else if (op.kind == LineOp::Kind::kPacketContext && !entered_->context_text.is_empty()) {
            at = entered_->context_text.write(at);
        } else if (op.kind != LineOp::Kind::kNothing) {
            buffer.set_end(at);
            LEAT_TRY(op.kind == LineOp::Kind::kPacketContext ? packet_context(buffer, packet)
                                                             : carry_out(op, layout, step, buffer, state, packet));
            at = buffer.reserve(program.fixed_size);
        }
    }
    buffer.set_end(at);
    return {};
}

Result<void> LineRenderer::carry_out(const LineOp& op, const ctf::EventLayout& layout, std::size_t& step,
                                     TextBuffer& buffer, PlanState& state, const PacketView& packet) {
    ctf::FieldDecoder& decoder = state.decoder;
    const ctf::PlanNode& node = packet.plan->nodes[op.node];
    const auto pass = [&] { return decoder.skip(layout, layout.steps[step++]); };
    switch (op.kind) {
        case LineOp::Kind::kEventContext:
            return carry_out(state.context_program, packet.plan->context_layout, buffer, state, packet);
        case LineOp::Kind::kNumber: {
            const ctf::FieldValue value = decoder.value_at(node, decoder.begin_of_step() + op.offset);
            append_values(buffer, {&value, 1}, op.has_names);
            return {};
        }
        case LineOp::Kind::kArray:
            array(op, buffer, packet, decoder, decoder.begin_of_step() + op.offset, node.length);
            return {};
        case LineOp::Kind::kString: {
            if (!pass()) return changed(packet);
            const auto size = (decoder.position() - decoder.begin_of_step()) / 8 - 1;
            append_string(buffer, {reinterpret_cast<const char*>(decoder.bytes_of_step()), size});
            return {};
        }
        case LineOp::Kind::kElements: {
            const std::uint64_t element = layout.steps[step].size;
            if (!pass()) return changed(packet);
            const std::uint64_t length = (decoder.position() - decoder.begin_of_step()) / element;
            array(op, buffer, packet, decoder, decoder.begin_of_step(), length);
            return {};
        }
        case LineOp::Kind::kNode:
            ++step;
            values_.clear();
            if (!decoder.decode(op.node, values_)) return changed(packet);
            append_values(buffer, values_, op.has_names);
            decoder.forget_texts(0);
            return {};
        default:
            return {};
    }
}

void LineRenderer::array(const LineOp& op, TextBuffer& buffer, const PacketView& packet,
                         const ctf::FieldDecoder& decoder, std::uint64_t begin, std::uint64_t length) {
    const ctf::PlanNode& node = packet.plan->nodes[op.node];
    if (node.op == ctf::PlanNode::Op::kText) {
        const auto* const text = reinterpret_cast<const char*>(decoder.bytes_at(begin));
        return append_string(buffer, {text, ::strnlen(text, length)});
    }
    const ctf::PlanNode& element = packet.plan->nodes[node.first_child];
    values_.clear();
    ctf::FieldValue& array = values_.emplace_back();
    array.field_class = node.field_class;
    array.size = static_cast<std::uint32_t>(length);
    for (std::uint64_t i = 0; i < length; ++i) values_.push_back(decoder.value_at(element, begin + i * element.size));
    append_values(buffer, values_, op.has_names);
}

[[gnu::always_inline]] inline const LineProgram& LineRenderer::program_of(PlanState& state, const PacketView& packet,
                                                                          std::uint32_t event) {
    auto& programs = state.programs;
    if (event >= programs.size()) programs.resize(packet.plan->events.size());
    if (programs[event] == nullptr) {
        const ctf::EventPlan& plan = packet.plan->events[event];
        const std::string name = name_of(state, *plan.event_class);
        programs[event] = std::make_unique<LineProgram>(make_line_program(*packet.plan, plan, name, options_));
    }
    return *programs[event];
}

// An empty text counts as a field, as in babeltrace2.
void LineRenderer::add_head_field(Head& head, std::string_view name, std::string_view value) const {
    head.text += options_.names_header ? fmt::format("{}{}, ", header_name(name), value)
                                       : fmt::format("{}{}", head.has_fields ? ":" : "", value);
    head.has_fields = true;
}

// The trace's part of a line.
LineRenderer::Head LineRenderer::head_of(const PacketView& packet) const {
    if (is_json_) return {.text = json_head_of(packet)};
    const ctf::TraceClass& trace_class = *packet.trace_class;
    Head head;
    // The name has no separator after it, unlike the other fields, as in babeltrace2.
    const std::string trace = trace_name(trace_class, packet.stream->trace_path);
    if (options_.shows_trace)
        head.text = options_.names_header ? fmt::format("{}{}, , ", header_name("trace"), trace) : trace;
    const auto add_text = [&](bool is_shown, std::string_view name, std::string_view key) {
        const std::string* const text = ctf::environment_text(trace_class, key);
        if (is_shown && text != nullptr) add_head_field(head, name, *text);
    };
    add_text(options_.shows_hostname, "trace:hostname", "hostname");
    add_text(options_.shows_domain, "trace:domain", "domain");
    add_text(options_.shows_procname, "trace:procname", "procname");
    const std::int64_t* const vpid = ctf::environment_number(trace_class, "vpid");
    if (vpid != nullptr && options_.shows_vpid) add_head_field(head, "trace:vpid", fmt::format("({})", *vpid));
    return head;
}

std::string LineRenderer::json_head_of(const PacketView& packet) {
    TextBuffer text(-1);
    const auto begin = [&](std::string_view name) {
        text.append(text.text().empty() ? "\"trace\":{\"" : ",\"");
        text.append(name);
        text.append("\":");
    };
    for (const char* const name : {"hostname", "domain", "procname"}) {
        const std::string* const value = ctf::environment_text(*packet.trace_class, name);
        if (value == nullptr) continue;
        begin(name);
        append_json_text(text, *value);
    }
    if (const std::int64_t* const vpid = ctf::environment_number(*packet.trace_class, "vpid")) {
        begin("vpid");
        text.append_number(*vpid);
    }
    if (!text.text().empty()) text.append("},");
    return std::string(text.text());
}

std::string LineRenderer::json_name_of(const ctf::EventClass& event_class) {
    TextBuffer text(-1);
    text.append("\"name\":");
    append_json_text(text, event_class.name);
    if (event_class.log_level) {
        text.append(",\"log_level\":");
        text.append_number(*event_class.log_level);
    }
    if (!event_class.model_uri.empty()) {
        text.append(",\"model_emf_uri\":");
        append_json_text(text, event_class.model_uri);
    }
    return std::string(text.text());
}

// The event's part of a line, up to its name.
std::string LineRenderer::name_of(const PlanState& state, const ctf::EventClass& event_class) const {
    if (is_json_) return json_name_of(event_class);
    Head head{.has_fields = state.has_head_fields};
    const std::string log_level = log_level_text(event_class);
    if (options_.shows_log_level && !log_level.empty()) add_head_field(head, "loglevel", log_level);
    if (options_.shows_emf_uri && !event_class.model_uri.empty())
        add_head_field(head, "model.emf.uri", event_class.model_uri);
    if (head.has_fields) head.text += name_or("", " ");
    return head.text + fmt::format("{}{}{}{}{}", options_.names_header ? header_name("name") : "",
                                   options_.colors.event, event_class.name, options_.colors.end, name_or(", ", ": "));
}

Result<void> LineRenderer::packet_context(TextBuffer& buffer, const PacketView& packet) {
    if (entered_->context == nullptr || entered_->context->packet != packet.number) {
        const Context* const context = LEAT_TRY(context_of(packet));
        enter(packet);  // what was kept of it may be forgotten
        entered_->context = context;
        entered_->context_text = ShortText(context->text.text());
    }
    buffer.append(entered_->context->text);
    return {};
}

Result<const LineRenderer::Context*> LineRenderer::context_of(const PacketView& packet) {
    if (contexts_.size() >= kMaxContexts && !contexts_.contains(packet.stream)) {
        contexts_.clear();
        recent_.forget();
    }
    Context& context = contexts_[packet.stream];
    if (context.packet != packet.number) {
        const ctf::PacketDecoder& decoder = *LEAT_TRY(decoder_.enter(packet));
        TextBuffer text(-1);
        append_values(text, decoder.packet_context(), options_.names_context);
        context = {.packet = packet.number, .text = PaddedText(text.text())};
    }
    return &context;
}

Result<void> LineRenderer::decoded(TextBuffer& buffer, PlanState& state, const PacketView& packet,
                                   const ctf::EventPlace& place) {
    const ctf::EventRecord& event = *LEAT_TRY(decoder_.decode(packet, place));
    buffer.append(name_of(state, *event.event_class));
    bool has_scope = false;
    const auto scope = [&](const ScopeName& name, std::span<const ctf::FieldValue> values, bool has_names) {
        if (values.empty()) return;
        if (is_json_)
            buffer.append(fmt::format(",\"{}\":", name.json));
        else if (std::exchange(has_scope, true))
            buffer.append(", ");
        if (!is_json_ && options_.names_scope) buffer.append(header_name(name.text));
        append_values(buffer, values, has_names);
    };
    scope(kPacketContextScope, event.packet_context, options_.names_context);
    scope(kEventContextScope, event.event_context, options_.names_context);
    scope(kSpecificContextScope, event.context, options_.names_context);
    scope(kPayloadScope, event.fields, options_.names_payload);
    buffer.append(is_json_ ? "}\n" : "\n");
    return {};
}

}  // namespace leat::viewer
