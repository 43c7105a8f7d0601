#include "ctf/tsdl_parser.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ctf/tsdl_attributes.hpp"
#include "ctf/tsdl_tokens.hpp"
#include "ctf/tsdl_type_parser.hpp"

namespace leat::ctf {
namespace {

// An event block may come before the stream block that it belongs to.
struct DeclaredEvent {
    EventClass event;
    std::optional<std::uint64_t> stream_id;
    unsigned line;
};

class TsdlParser {
  public:
    TsdlParser(TsdlTokens tokens, ByteOrder native) : tokens_(std::move(tokens)), types_(tokens_, native) {
        trace_.byte_order = native;
    }

    Result<TraceClass> parse();

  private:
    using ParseAttribute = Result<bool> (TsdlParser::*)(std::string_view name);

    Result<void> root();
    Result<void> block(ParseAttribute parse_attribute);
    Result<std::string> attribute_name();

    Result<bool> trace_attribute(std::string_view name);
    Result<bool> environment_entry(std::string_view name);
    Result<bool> clock_attribute(std::string_view name);
    Result<bool> clock_number(std::string_view name);
    Result<bool> stream_attribute(std::string_view name);
    Result<bool> event_attribute(std::string_view name);
    Result<bool> callsite_attribute(std::string_view) { return false; }

    Result<void> clock_block();
    Result<void> stream_block();
    Result<void> event_block();
    Result<void> attach_events();
    Result<std::size_t> stream_of(const DeclaredEvent& declared) const;

    Result<StructClass> scope();
    Result<std::string> text();
    Result<Uuid> uuid();
    Result<bool> boolean();

    TsdlTokens tokens_;
    TsdlTypeParser types_;
    TraceClass trace_;
    std::vector<DeclaredEvent> events_;
};

Result<TraceClass> TsdlParser::parse() {
    while (!tokens_.at(TsdlToken::Kind::kEnd)) LEAT_TRY(root());
    LEAT_TRY(attach_events());
    return std::move(trace_);
}

Result<void> TsdlParser::root() {
    if (types_.at_declaration()) return types_.declaration();
    if (LEAT_TRY(tokens_.accept("trace"))) return block(&TsdlParser::trace_attribute);
    if (LEAT_TRY(tokens_.accept("env"))) return block(&TsdlParser::environment_entry);
    if (LEAT_TRY(tokens_.accept("clock"))) return clock_block();
    if (LEAT_TRY(tokens_.accept("stream"))) return stream_block();
    if (LEAT_TRY(tokens_.accept("event"))) return event_block();
    // Call sites say where in a program an event comes from; no field depends on them.
    if (LEAT_TRY(tokens_.accept("callsite"))) return block(&TsdlParser::callsite_attribute);
    return tokens_.expected("trace, env, clock, stream, event or a type");
}

// `{ name = value; path.of.scope := type; struct local { ... }; };`
Result<void> TsdlParser::block(ParseAttribute parse_attribute) {
    types_.push_scope();
    LEAT_TRY(tokens_.expect("{"));
    while (!tokens_.at("}")) {
        if (types_.at_declaration()) {
            LEAT_TRY(types_.declaration());
            continue;
        }
        const std::string name = LEAT_TRY(attribute_name());
        const bool is_known = LEAT_TRY((this->*parse_attribute)(name));
        if (is_known)
            LEAT_TRY(tokens_.expect(";"));
        else
            LEAT_TRY(skip_attribute(tokens_));
    }
    types_.pop_scope();
    LEAT_TRY(tokens_.expect("}"));
    return tokens_.expect(";");
}

// `packet.header :=` comes back as "packet.header:", `id =` as "id".
Result<std::string> TsdlParser::attribute_name() {
    std::string name(LEAT_TRY(tokens_.expect_word("the name of an attribute")).text);
    while (LEAT_TRY(tokens_.accept(".")))
        name += fmt::format(".{}", LEAT_TRY(tokens_.expect_word("the name of an attribute")).text);
    LEAT_TRY(types_.charge(name.size()));
    if (LEAT_TRY(tokens_.accept(":="))) return name + ":";
    LEAT_TRY(tokens_.expect("="));
    return name;
}

Result<bool> TsdlParser::trace_attribute(std::string_view name) {
    constexpr std::uint64_t kMajor = 1;
    constexpr std::uint64_t kMinor = 8;
    if (name == "major" || name == "minor") {
        if (tokens_.peek().number != (name == "major" ? kMajor : kMinor)) return tokens_.expected("version 1.8 of CTF");
        LEAT_TRY(tokens_.expect_number("version 1.8 of CTF"));
    } else if (name == "uuid") {
        trace_.uuid = LEAT_TRY(uuid());
    } else if (name == "byte_order") {
        LEAT_TRY(parse_byte_order(tokens_, trace_.byte_order));  // known since before the first type
    } else if (name == "packet.header:") {
        trace_.packet_header = LEAT_TRY(scope());
    } else {
        return false;
    }
    return true;
}

Result<bool> TsdlParser::environment_entry(std::string_view name) {
    EnvironmentEntry entry{std::string(name), {}};
    if (tokens_.at(TsdlToken::Kind::kString))
        entry.value = LEAT_TRY(text());
    else
        entry.value = static_cast<std::int64_t>(LEAT_TRY(parse_signed_number(tokens_)).bits);
    LEAT_TRY(types_.charge(sizeof(EnvironmentEntry)));
    trace_.environment.push_back(std::move(entry));
    return true;
}

Result<void> TsdlParser::clock_block() {
    LEAT_TRY(types_.charge(sizeof(ClockClass)));
    trace_.clocks.emplace_back();
    LEAT_TRY(block(&TsdlParser::clock_attribute));
    const std::string& name = trace_.clocks.back().name;
    if (name.empty()) return tokens_.expected("the attribute 'name' of the clock before this");
    if (std::ranges::count(trace_.clocks, name, &ClockClass::name) > 1)
        return corrupt("line {}: clock '{}' is declared twice", tokens_.peek().line, name);
    return {};
}

Result<bool> TsdlParser::clock_attribute(std::string_view name) {
    ClockClass& clock = trace_.clocks.back();
    if (name == "name") {
        clock.name = LEAT_TRY(text());
    } else if (name == "uuid") {
        clock.uuid = LEAT_TRY(uuid());
    } else if (name == "description") {
        clock.description = LEAT_TRY(text());
    } else if (name == "absolute") {
        clock.is_absolute = LEAT_TRY(boolean());
    } else {
        return clock_number(name);
    }
    return true;
}

Result<bool> TsdlParser::clock_number(std::string_view name) {
    ClockClass& clock = trace_.clocks.back();
    if (name == "freq") {
        if (tokens_.peek().number == 0) return tokens_.expected("a frequency above 0");
        clock.frequency = LEAT_TRY(tokens_.expect_number("a frequency"));
    } else if (name == "precision") {
        clock.precision = LEAT_TRY(tokens_.expect_number("a number of cycles"));
    } else if (name == "offset_s") {
        clock.offset_s = static_cast<std::int64_t>(LEAT_TRY(parse_signed_number(tokens_)).bits);
    } else if (name == "offset") {
        clock.offset = LEAT_TRY(tokens_.expect_number("a number of cycles, not negative,"));
    } else {
        return false;
    }
    return true;
}

Result<void> TsdlParser::stream_block() {
    LEAT_TRY(types_.charge(sizeof(StreamClass)));
    const unsigned line = tokens_.peek().line;
    trace_.streams.emplace_back();
    LEAT_TRY(block(&TsdlParser::stream_attribute));
    const std::uint64_t id = trace_.streams.back().id;
    if (std::ranges::count(trace_.streams, id, &StreamClass::id) > 1)
        return corrupt("line {}: stream {} is declared twice", line, id);
    return {};
}

Result<bool> TsdlParser::stream_attribute(std::string_view name) {
    StreamClass& stream = trace_.streams.back();
    if (name == "id")
        stream.id = LEAT_TRY(tokens_.expect_number("a stream id"));
    else if (name == "event.header:")
        stream.event_header = LEAT_TRY(scope());
    else if (name == "event.context:")
        stream.event_context = LEAT_TRY(scope());
    else if (name == "packet.context:")
        stream.packet_context = LEAT_TRY(scope());
    else
        return false;
    return true;
}

Result<void> TsdlParser::event_block() {
    LEAT_TRY(types_.charge(sizeof(DeclaredEvent)));
    events_.push_back(DeclaredEvent{{}, {}, tokens_.peek().line});
    LEAT_TRY(block(&TsdlParser::event_attribute));
    if (events_.back().event.name.empty()) return tokens_.expected("the attribute 'name' of the event before this");
    return {};
}

Result<bool> TsdlParser::event_attribute(std::string_view name) {
    DeclaredEvent& declared = events_.back();
    if (name == "id")
        declared.event.id = LEAT_TRY(tokens_.expect_number("an event id"));
    else if (name == "name")
        declared.event.name = LEAT_TRY(text());
    else if (name == "stream_id")
        declared.stream_id = LEAT_TRY(tokens_.expect_number("a stream id"));
    else if (name == "loglevel")
        declared.event.log_level = static_cast<std::int64_t>(LEAT_TRY(parse_signed_number(tokens_)).bits);
    else if (name == "model.emf.uri")
        declared.event.model_uri = LEAT_TRY(text());
    else if (name == "context:")
        declared.event.context = LEAT_TRY(scope());
    else if (name == "fields:")
        declared.event.fields = LEAT_TRY(scope());
    else
        return false;
    return true;
}

Result<void> TsdlParser::attach_events() {
    // A trace with one kind of stream need not declare it.
    if (trace_.streams.empty()) trace_.streams.emplace_back();
    std::set<std::pair<std::size_t, std::uint64_t>> ids;
    for (DeclaredEvent& declared : events_) {
        const std::size_t stream = LEAT_TRY(stream_of(declared));
        if (!ids.insert({stream, declared.event.id}).second)
            return corrupt("line {}: event id {} is declared twice", declared.line, declared.event.id);
        trace_.streams[stream].events.push_back(std::move(declared.event));
    }
    return {};
}

Result<std::size_t> TsdlParser::stream_of(const DeclaredEvent& declared) const {
    if (!declared.stream_id) {
        if (trace_.streams.size() == 1) return 0;
        return corrupt("line {}: event without a stream_id among several streams", declared.line);
    }
    const auto stream = std::ranges::find(trace_.streams, *declared.stream_id, &StreamClass::id);
    if (stream == trace_.streams.end())
        return corrupt("line {}: event of stream {}, which is not declared", declared.line, *declared.stream_id);
    return static_cast<std::size_t>(stream - trace_.streams.begin());
}

Result<StructClass> TsdlParser::scope() {
    FieldClass field_class = LEAT_TRY(types_.type());
    auto* const struct_class = field_class.as<StructClass>();
    if (struct_class == nullptr) return tokens_.expected("a struct before this");
    return std::move(*struct_class);
}

Result<std::string> TsdlParser::text() {
    std::string text = LEAT_TRY(parse_text(tokens_));
    LEAT_TRY(types_.charge(text.size()));
    return text;
}

Result<Uuid> TsdlParser::uuid() {
    const std::optional<Uuid> uuid = parse_uuid(tokens_.peek().text);
    if (!uuid) return tokens_.expected("a UUID");
    LEAT_TRY(tokens_.take());
    return *uuid;
}

Result<bool> TsdlParser::boolean() {
    const bool is_true = tokens_.at("true") || tokens_.at("TRUE") || tokens_.peek().number == 1;
    LEAT_TRY(tokens_.take());
    return is_true;
}

// Types may stand before the trace block that states their byte order, so it is looked for first.
Result<ByteOrder> find_byte_order(std::string_view text) {
    TsdlTokens tokens = LEAT_TRY(TsdlTokens::open(text));
    unsigned depth = 0;
    bool is_in_trace = false;
    while (!tokens.at(TsdlToken::Kind::kEnd)) {
        const TsdlToken token = LEAT_TRY(tokens.take());
        if (depth == 0) is_in_trace = token.is("trace") || (is_in_trace && token.is("{"));
        if (token.is("{")) ++depth;
        if (token.is("}") && depth > 0) --depth;
        if (is_in_trace && depth == 1 && token.is("byte_order") && LEAT_TRY(tokens.accept("=")))
            return parse_byte_order(tokens, ByteOrder::kLittleEndian);
    }
    return ByteOrder::kLittleEndian;
}

}  // namespace

Result<TraceClass> parse_tsdl(std::string_view text) {
    const ByteOrder native = LEAT_TRY(find_byte_order(text));
    return TsdlParser(LEAT_TRY(TsdlTokens::open(text)), native).parse();
}

}  // namespace leat::ctf
