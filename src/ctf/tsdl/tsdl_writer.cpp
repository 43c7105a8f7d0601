#include "ctf/tsdl/tsdl_writer.hpp"

#include <fmt/format.h>

#include <iterator>
#include <limits>
#include <string_view>

namespace leat::ctf {
namespace {

// Text that is being written, at one depth of indentation.
class Tsdl {
  public:
    template <class... Args>
    void line(fmt::format_string<Args...> format, Args&&... args) {
        text_.append(depth_, '\t');
        fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
        text_ += '\n';
    }
    void open(std::string_view head) {
        line("{} {{", head);
        ++depth_;
    }
    void close(std::string_view tail) {
        --depth_;
        line("}}{}", tail);
    }
    void declare(const FieldClass& field_class, std::string_view name);
    void structure(std::string_view head, const StructClass& struct_class, std::string_view tail);

    std::string text_;

  private:
    std::size_t depth_ = 0;
};

std::string string_literal(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out + '"';
}

std::string_view byte_order(ByteOrder order) { return order == ByteOrder::kBigEndian ? "be" : "le"; }

std::string integer(const IntegerClass& integer_class) {
    std::string text = fmt::format("integer {{ size = {}; align = {}; signed = {}; base = {}; byte_order = {};",
                                   integer_class.size, integer_class.alignment, integer_class.is_signed,
                                   static_cast<unsigned>(integer_class.base), byte_order(integer_class.byte_order));
    if (integer_class.encoding != Encoding::kNone)
        text += integer_class.encoding == Encoding::kUtf8 ? " encoding = UTF8;" : " encoding = ASCII;";
    if (!integer_class.clock.empty()) text += fmt::format(" map = clock.{}.value;", integer_class.clock);
    return text + " }";
}

std::string floating_point(const FloatClass& float_class) {
    const bool is_double = float_class.size == 64;
    return fmt::format("floating_point {{ exp_dig = {}; mant_dig = {}; align = {}; byte_order = {}; }}",
                       is_double ? 11 : 8, is_double ? 53 : 24, float_class.alignment,
                       byte_order(float_class.byte_order));
}

std::string bound(std::uint64_t bits, bool is_signed) {
    return is_signed ? fmt::to_string(static_cast<std::int64_t>(bits)) : fmt::to_string(bits);
}

std::string enumeration(const EnumClass& enum_class) {
    const bool is_signed = enum_class.container.is_signed;
    std::string text = fmt::format("enum : {} {{", integer(enum_class.container));
    for (const EnumRange& range : enum_class.ranges) {
        text += fmt::format(" {} = {}", string_literal(range.label), bound(range.lower, is_signed));
        if (range.upper != range.lower) text += fmt::format(" ... {}", bound(range.upper, is_signed));
        text += ',';
    }
    return text + " }";
}

std::string string(const StringClass& string_class) {
    return string_class.encoding == Encoding::kAscii ? "string { encoding = ASCII; }" : "string";
}

// The class without a name, for all classes but structs and variants, which take several lines.
std::string simple_class(const FieldClass& field_class) {
    if (const auto* form = field_class.as<IntegerClass>()) return integer(*form);
    if (const auto* form = field_class.as<FloatClass>()) return floating_point(*form);
    if (const auto* form = field_class.as<EnumClass>()) return enumeration(*form);
    if (const auto* form = field_class.as<StringClass>()) return string(*form);
    return {};
}

void Tsdl::structure(std::string_view head, const StructClass& struct_class, std::string_view tail) {
    open(head);
    for (const StructMember& member : struct_class.members) declare(member.field_class, member.name);
    const bool is_aligned = struct_class.minimum_alignment > 1;
    close(is_aligned ? fmt::format(" align({}){}", struct_class.minimum_alignment, tail) : std::string(tail));
}

void Tsdl::declare(const FieldClass& field_class, std::string_view name) {
    if (const auto* array = field_class.as<ArrayClass>())
        return declare(*array->element, fmt::format("{}[{}]", name, array->length));
    if (const auto* sequence = field_class.as<SequenceClass>())
        return declare(*sequence->element, fmt::format("{}[ {} ]", name, fmt::join(sequence->length, ".")));
    if (const auto* form = field_class.as<StructClass>()) return structure("struct", *form, fmt::format(" {};", name));
    if (const auto* form = field_class.as<VariantClass>()) {
        open(fmt::format("variant <{}>", fmt::join(form->tag, ".")));
        for (const StructMember& option : form->options) declare(option.field_class, option.name);
        return close(fmt::format(" {};", name));
    }
    line("{} {};", simple_class(field_class), name);
}

void optional_structure(Tsdl& out, std::string_view name, const std::optional<StructClass>& struct_class) {
    if (struct_class) out.structure(fmt::format("{} := struct", name), *struct_class, ";");
}

void trace_block(Tsdl& out, const TraceClass& trace_class) {
    out.open("trace");
    out.line("major = 1;");
    out.line("minor = 8;");
    if (trace_class.uuid) out.line("uuid = \"{}\";", to_string(*trace_class.uuid));
    out.line("byte_order = {};", byte_order(trace_class.byte_order));
    optional_structure(out, "packet.header", trace_class.packet_header);
    out.close(";\n");
}

void env_block(Tsdl& out, const TraceClass& trace_class) {
    if (trace_class.environment.empty()) return;
    out.open("env");
    for (const EnvironmentEntry& entry : trace_class.environment) {
        if (const auto* text = std::get_if<std::string>(&entry.value))
            out.line("{} = {};", entry.name, string_literal(*text));
        else
            out.line("{} = {};", entry.name, std::get<std::int64_t>(entry.value));
    }
    out.close(";\n");
}

// with_clock_offset() finds the number by these, and has room for any.
constexpr std::string_view kClockBlock = "clock";
constexpr std::string_view kClockOffset = "offset = ";
constexpr int kClockOffsetWidth = std::numeric_limits<std::uint64_t>::digits10 + 1;

// `freq` stands before `offset_s`: [Trace-Compass] wants it so.
void clock_block(Tsdl& out, const ClockClass& clock) {
    out.open(kClockBlock);
    out.line("name = \"{}\";", clock.name);
    if (clock.uuid) out.line("uuid = \"{}\";", to_string(*clock.uuid));
    if (!clock.description.empty()) out.line("description = {};", string_literal(clock.description));
    out.line("freq = {};", clock.frequency);
    if (clock.precision != 0) out.line("precision = {};", clock.precision);
    out.line("offset_s = {};", clock.offset_s);
    out.line("{}{:{}};", kClockOffset, clock.offset, kClockOffsetWidth);
    if (clock.is_absolute) out.line("absolute = true;");
    out.close(";\n");
}

void stream_block(Tsdl& out, const StreamClass& stream) {
    out.open("stream");
    out.line("id = {};", stream.id);
    optional_structure(out, "event.header", stream.event_header);
    optional_structure(out, "packet.context", stream.packet_context);
    optional_structure(out, "event.context", stream.event_context);
    out.close(";\n");
}

}  // namespace

std::string trace_blocks(const TraceClass& trace_class) {
    Tsdl out;
    trace_block(out, trace_class);
    env_block(out, trace_class);
    for (const ClockClass& clock : trace_class.clocks) clock_block(out, clock);
    for (const StreamClass& stream : trace_class.streams) stream_block(out, stream);
    return out.text_;
}

std::string event_block(const EventClass& event_class, std::uint64_t stream_id) {
    Tsdl out;
    out.open("event");
    out.line("name = {};", string_literal(event_class.name));
    out.line("id = {};", event_class.id);
    out.line("stream_id = {};", stream_id);
    if (event_class.log_level) out.line("loglevel = {};", *event_class.log_level);
    if (!event_class.model_uri.empty()) out.line("model.emf.uri = {};", string_literal(event_class.model_uri));
    optional_structure(out, "context", event_class.context);
    out.structure("fields := struct", event_class.fields.value_or(StructClass{}), ";");
    out.close(";\n");
    return out.text_;
}

// No string has a newline in it: string_literal().
Result<std::string> with_clock_offset(std::string_view text, std::uint64_t offset) {
    const std::size_t block = text.find(fmt::format("\n{} {{\n", kClockBlock));
    const std::string member = fmt::format("\n\t{}", kClockOffset);
    const std::size_t found = block == std::string_view::npos ? block : text.find(member, block);
    const std::size_t end = found == std::string_view::npos ? found : text.find(';', found);
    if (end == std::string_view::npos) return corrupt("metadata has no clock with an offset");
    const std::size_t begin = found + member.size();
    const std::string number = fmt::format("{:{}}", offset, end - begin);
    if (number.size() > end - begin) return unsupported("metadata has no room for the offset {} of its clock", offset);
    return std::string(text).replace(begin, number.size(), number);
}

}  // namespace leat::ctf
