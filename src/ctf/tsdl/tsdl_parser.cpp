#include "ctf/tsdl/tsdl_parser.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ctf/model/log_level.hpp"
#include "ctf/tsdl/tsdl_attributes.hpp"
#include "ctf/tsdl/tsdl_tokens.hpp"
#include "ctf/tsdl/tsdl_type_parser.hpp"

namespace leat::ctf {
namespace {

// Tracers write about a dozen entries. The limit is needed because they are searched by name for each new one.
struct DeclaredEvent {
    EventClass event;
    std::optional<std::uint64_t> stream_id;
    unsigned line = 0;
};

}  // namespace

class TsdlParser {
  public:
    explicit TsdlParser(ByteOrder native) : types_(tokens_, native, trace_.environment) { trace_.byte_order = native; }
    TsdlParser(const TsdlParser&) = delete;
    TsdlParser& operator=(const TsdlParser&) = delete;

    // Reads the declarations that follow those of the last call.
    Result<void> read(std::string_view text);
    // Call this when there are no more.
    Result<void> finish();

    [[nodiscard]] const TraceClass& trace_class() const { return trace_; }
    TraceClass take_trace_class() { return std::move(trace_); }
    [[nodiscard]] std::uint64_t tokens_read() const { return tokens_read_; }

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

    Result<void> trace_block();
    Result<void> clock_block();
    Result<void> stream_block();
    Result<void> event_block();
    Result<void> add_stream(StreamClass stream, unsigned line);
    Result<void> add_event(DeclaredEvent declared, std::size_t stream);
    Result<void> add_nameless_events();

    Result<StructClass> scope();
    Result<std::string> text();
    Result<std::optional<std::int64_t>> log_level();
    Result<Uuid> uuid();
    Result<bool> boolean();

    TsdlTokens tokens_;
    TsdlTypeParser types_;
    unsigned line_ = 1;  // at which the next text begins
    std::uint64_t tokens_read_ = 0;

    TraceClass trace_;
    bool has_trace_block_ = false;
    // Ordered, not hashed: the author of the text chooses the keys.
    std::set<std::string, std::less<>> clock_names_;
    std::map<std::uint64_t, std::size_t> stream_by_id_;                 // index into trace_.streams
    std::set<std::pair<std::size_t, std::uint64_t>> event_ids_;         // stream, id
    std::map<std::uint64_t, std::vector<DeclaredEvent>> early_events_;  // by the id of a stream not yet declared
    std::vector<DeclaredEvent> nameless_events_;                        // do not say which stream they belong to

    // The declaration that is being read.
    ClockClass clock_;
    StreamClass stream_;
    DeclaredEvent event_;
};

Result<void> TsdlParser::read(std::string_view text) {
    tokens_ = LEAT_TRY(TsdlTokens::open(text, line_));
    while (!tokens_.at(TsdlToken::Kind::kEnd)) LEAT_TRY(root());
    line_ = tokens_.peek().line;
    tokens_read_ += tokens_.count();
    return add_nameless_events();
}

Result<void> TsdlParser::finish() {
    // A trace with one kind of stream may leave out the stream block.
    if (trace_.streams.empty()) LEAT_TRY(add_stream({}, line_));
    LEAT_TRY(add_nameless_events());
    if (early_events_.empty()) return {};
    const auto& [stream_id, events] = *early_events_.begin();
    return corrupt("line {}: event of stream {}, which is not declared", events.front().line, stream_id);
}

Result<void> TsdlParser::root() {
    if (types_.at_declaration()) return types_.declaration();
    if (LEAT_TRY(tokens_.accept("trace"))) return trace_block();
    if (LEAT_TRY(tokens_.accept("env"))) return block(&TsdlParser::environment_entry);
    if (LEAT_TRY(tokens_.accept("clock"))) return clock_block();
    if (LEAT_TRY(tokens_.accept("stream"))) return stream_block();
    if (LEAT_TRY(tokens_.accept("event"))) return event_block();
    // Call sites say where in a program an event comes from. No field depends on them.
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
        LEAT_TRY(parse_byte_order(tokens_, trace_.byte_order));  // found before the first type was read
    } else if (name == "packet.header:") {
        trace_.packet_header = LEAT_TRY(scope());
    } else {
        return false;
    }
    return true;
}

Result<bool> TsdlParser::environment_entry(std::string_view name) {
    EnvironmentEntry entry{std::string(name), {}};
    if (tokens_.at(TsdlToken::Kind::kString) || tokens_.at(TsdlToken::Kind::kWord))
        entry.value = LEAT_TRY(text());
    else
        entry.value = static_cast<std::int64_t>(LEAT_TRY(parse_signed_number(tokens_)).bits);
    LEAT_TRY(types_.charge(sizeof(EnvironmentEntry)));
    if (trace_.environment.size() == kMaxEnvironmentEntries)
        return corrupt("line {}: env has more than {} entries", tokens_.peek().line, kMaxEnvironmentEntries);
    trace_.environment.push_back(std::move(entry));
    return true;
}

Result<void> TsdlParser::trace_block() {
    const unsigned line = tokens_.peek().line;
    if (std::exchange(has_trace_block_, true)) return corrupt("line {}: the trace is declared twice", line);
    return block(&TsdlParser::trace_attribute);
}

Result<void> TsdlParser::clock_block() {
    LEAT_TRY(types_.charge(sizeof(ClockClass)));
    clock_ = {};
    LEAT_TRY(block(&TsdlParser::clock_attribute));
    if (clock_.name.empty()) return tokens_.expected("the attribute 'name' of the clock before this");
    if (!clock_names_.insert(clock_.name).second)
        return corrupt("line {}: clock '{}' is declared twice", tokens_.peek().line, clock_.name);
    trace_.clocks.push_back(std::move(clock_));
    return {};
}

Result<bool> TsdlParser::clock_attribute(std::string_view name) {
    if (name == "name") {
        clock_.name = LEAT_TRY(text());
    } else if (name == "uuid") {
        clock_.uuid = LEAT_TRY(uuid());
    } else if (name == "description") {
        clock_.description = LEAT_TRY(text());
    } else if (name == "absolute") {
        clock_.is_absolute = LEAT_TRY(boolean());
    } else {
        return clock_number(name);
    }
    return true;
}

Result<bool> TsdlParser::clock_number(std::string_view name) {
    if (name == "freq") {
        if (tokens_.peek().number == 0) return tokens_.expected("a frequency above 0");
        clock_.frequency = LEAT_TRY(tokens_.expect_number("a frequency"));
    } else if (name == "precision") {
        clock_.precision = LEAT_TRY(tokens_.expect_number("a number of cycles"));
    } else if (name == "offset_s") {
        clock_.offset_s = static_cast<std::int64_t>(LEAT_TRY(parse_signed_number(tokens_)).bits);
    } else if (name == "offset") {
        clock_.offset = LEAT_TRY(tokens_.expect_number("a number of cycles, not negative,"));
    } else {
        return false;
    }
    return true;
}

Result<void> TsdlParser::stream_block() {
    LEAT_TRY(types_.charge(sizeof(StreamClass)));
    const unsigned line = tokens_.peek().line;
    stream_ = {};
    LEAT_TRY(block(&TsdlParser::stream_attribute));
    return add_stream(std::move(stream_), line);
}

Result<void> TsdlParser::add_stream(StreamClass stream, unsigned line) {
    const std::size_t index = trace_.streams.size();
    const std::uint64_t id = stream.id;
    if (!stream_by_id_.emplace(id, index).second) return corrupt("line {}: stream {} is declared twice", line, id);
    trace_.streams.push_back(std::move(stream));
    const auto early = early_events_.extract(id);
    if (early.empty()) return {};
    for (DeclaredEvent& declared : early.mapped()) LEAT_TRY(add_event(std::move(declared), index));
    return {};
}

Result<bool> TsdlParser::stream_attribute(std::string_view name) {
    if (name == "id")
        stream_.id = LEAT_TRY(tokens_.expect_number("a stream id"));
    else if (name == "event.header:")
        stream_.event_header = LEAT_TRY(scope());
    else if (name == "event.context:")
        stream_.event_context = LEAT_TRY(scope());
    else if (name == "packet.context:")
        stream_.packet_context = LEAT_TRY(scope());
    else
        return false;
    return true;
}

Result<void> TsdlParser::event_block() {
    LEAT_TRY(types_.charge(sizeof(DeclaredEvent)));
    event_ = {.event = {}, .stream_id = {}, .line = tokens_.peek().line};
    LEAT_TRY(block(&TsdlParser::event_attribute));
    if (event_.event.name.empty()) return tokens_.expected("the attribute 'name' of the event before this");
    if (!event_.stream_id) {
        nameless_events_.push_back(std::move(event_));
        return {};
    }
    const auto stream = stream_by_id_.find(*event_.stream_id);
    if (stream != stream_by_id_.end()) return add_event(std::move(event_), stream->second);
    // The event may be declared before its stream.
    early_events_[*event_.stream_id].push_back(std::move(event_));
    return {};
}

Result<bool> TsdlParser::event_attribute(std::string_view name) {
    if (name == "id")
        event_.event.id = LEAT_TRY(tokens_.expect_number("an event id"));
    else if (name == "name")
        event_.event.name = LEAT_TRY(text());
    else if (name == "stream_id")
        event_.stream_id = LEAT_TRY(tokens_.expect_number("a stream id"));
    else if (name == "loglevel")
        event_.event.log_level = LEAT_TRY(log_level());
    else if (name == "model.emf.uri")
        event_.event.model_uri = LEAT_TRY(text());
    else if (name == "context:")
        event_.event.context = LEAT_TRY(scope());
    else if (name == "fields:")
        event_.event.fields = LEAT_TRY(scope());
    else
        return false;
    return true;
}

Result<void> TsdlParser::add_event(DeclaredEvent declared, std::size_t stream) {
    if (!event_ids_.insert({stream, declared.event.id}).second)
        return corrupt("line {}: event id {} is declared twice", declared.line, declared.event.id);
    trace_.streams[stream].events.push_back(std::move(declared.event));
    return {};
}

// They belong to the only stream of the trace.
Result<void> TsdlParser::add_nameless_events() {
    if (trace_.streams.empty() && !nameless_events_.empty()) LEAT_TRY(add_stream({}, line_));
    for (DeclaredEvent& declared : std::exchange(nameless_events_, {})) {
        if (trace_.streams.size() > 1)
            return corrupt("line {}: event without a stream_id among several streams", declared.line);
        LEAT_TRY(add_event(std::move(declared), 0));
    }
    return {};
}

Result<StructClass> TsdlParser::scope() {
    FieldClass field_class = LEAT_TRY(types_.type());
    auto* const struct_class = field_class.as<StructClass>();
    if (struct_class == nullptr) return tokens_.expected("a struct before this");
    return std::move(*struct_class);
}

// A string, or words: `sched.switch`.
Result<std::string> TsdlParser::text() {
    const bool has_quotes = tokens_.at(TsdlToken::Kind::kString);
    std::string text = LEAT_TRY(parse_text(tokens_));
    while (!has_quotes && (tokens_.at(".") || tokens_.at("->"))) {
        text += LEAT_TRY(tokens_.take()).text;
        text += LEAT_TRY(tokens_.expect_word("a word")).text;
    }
    LEAT_TRY(types_.charge(text.size()));
    return text;
}

// Nothing if it is none that has a name.
Result<std::optional<std::int64_t>> TsdlParser::log_level() {
    const std::uint64_t level = LEAT_TRY(tokens_.expect_number("a log level"));
    if (level >= kLogLevels.size()) return std::nullopt;
    return static_cast<std::int64_t>(level);
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

namespace {

// Whether a text has a trace block, and the byte order that the block states.
struct TraceBlock {
    bool is_found = false;
    ByteOrder byte_order = ByteOrder::kLittleEndian;
    std::uint64_t tokens_read = 0;
};

// Types may precede the trace block that states their byte order, so this is searched for first.
Result<TraceBlock> find_trace_block(std::string_view text) {
    TsdlTokens tokens = LEAT_TRY(TsdlTokens::open(text));
    TraceBlock block;
    unsigned depth = 0;
    while (!tokens.at(TsdlToken::Kind::kEnd)) {
        const TsdlToken token = LEAT_TRY(tokens.take());
        if (depth == 0 && token.is("trace") && tokens.at("{")) block.is_found = true;
        if (token.is("{")) ++depth;
        if (token.is("}") && depth > 0 && --depth == 0 && block.is_found) break;
        if (block.is_found && depth == 1 && token.is("byte_order") && LEAT_TRY(tokens.accept("="))) {
            block.byte_order = LEAT_TRY(parse_byte_order(tokens, ByteOrder::kLittleEndian));
            break;
        }
    }
    block.tokens_read = tokens.count();
    return block;
}

}  // namespace

TsdlReader::TsdlReader() = default;
TsdlReader::~TsdlReader() = default;

Result<void> TsdlReader::read(std::string_view text) {
    if (failure_) return tl::unexpected(*failure_);
    auto read = read_more(text);
    if (!read) failure_ = read.error();
    return read;
}

Result<void> TsdlReader::read_more(std::string_view text) {
    if (parser_ == nullptr) {
        const TraceBlock block = LEAT_TRY(find_trace_block(text.substr(searched_size_)));
        searched_size_ = text.size();
        tokens_searched_ += block.tokens_read;
        if (!block.is_found) return {};
        parser_ = std::make_unique<TsdlParser>(block.byte_order);
    }
    const std::string_view added = text.substr(read_size_);
    read_size_ = text.size();
    return parser_->read(added);
}

const TraceClass* TsdlReader::trace_class() const { return parser_ == nullptr ? nullptr : &parser_->trace_class(); }

std::uint64_t TsdlReader::tokens_read() const {
    return tokens_searched_ + (parser_ == nullptr ? 0 : parser_->tokens_read());
}

Result<TraceClass> parse_tsdl(std::string_view text) {
    TsdlParser parser(LEAT_TRY(find_trace_block(text)).byte_order);
    LEAT_TRY(parser.read(text));
    LEAT_TRY(parser.finish());
    return parser.take_trace_class();
}

}  // namespace leat::ctf
