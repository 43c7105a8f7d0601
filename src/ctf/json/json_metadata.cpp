#include "ctf/json/json_metadata.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ctf/json/json_field_classes.hpp"
#include "ctf/json/json_properties.hpp"

namespace leat::ctf {
namespace {

// A parsed fragment takes many times its size. That of an event with a thousand fields has a tenth of it.
constexpr std::size_t kMaxFragmentSize = 4U << 20U;

// Copies of JSON are made by recursion. Field classes in the deepest legal nesting need half of it.
constexpr std::size_t kMaxDepth = 512;

// Of events that have none; babeltrace2 shows it likewise.
constexpr std::string_view kNoName = "<unknown>";

// Where the attributes of an event are, first choice first.
constexpr std::array<std::string_view, 2> kAttributeNamespaces{"babeltrace.org,2020", "lttng.org,2009"};

constexpr std::array<std::string_view, 15> kLogLevelNames{
    "emergency",    "alert",      "critical",       "error",         "warning",
    "notice",       "info",       "debug:system",   "debug:program", "debug:process",
    "debug:module", "debug:unit", "debug:function", "debug:line",    "debug"};

// Null if there is none.
const Json* attribute(const Json& fragment, std::string_view name) {
    const auto attributes = fragment.find("attributes");
    if (attributes == fragment.end()) return nullptr;
    for (const std::string_view space : kAttributeNamespaces) {
        const auto found = attributes->find(space);
        if (found == attributes->end() || !found->is_object()) continue;
        const auto value = found->find(name);
        if (value != found->end()) return &*value;
    }
    return nullptr;
}

std::optional<std::int64_t> log_level_of(const Json& fragment) {
    const Json* const name = attribute(fragment, "log-level");
    if (name == nullptr || !name->is_string()) return std::nullopt;
    const auto* const known = std::ranges::find(kLogLevelNames, name->get_ref<const std::string&>());
    return known == kLogLevelNames.end() ? std::nullopt : std::optional(known - kLogLevelNames.begin());
}

std::string model_uri_of(const Json& fragment) {
    const Json* const uri = attribute(fragment, "emf-uri");
    return uri != nullptr && uri->is_string() ? uri->get<std::string>() : "";
}

Result<Uuid> uuid_of(const Json& bytes) {
    Uuid uuid{};
    const auto is_byte = [](const Json& byte) { return integer_bits(byte, false).value_or(UINT64_MAX) <= UINT8_MAX; };
    if (!bytes.is_array() || bytes.size() != uuid.size() || !std::ranges::all_of(bytes, is_byte))
        return corrupt("uuid: expected 16 numbers from 0 to 255");
    std::ranges::transform(bytes, uuid.begin(), [](const Json& byte) { return byte.get<std::uint8_t>(); });
    return uuid;
}

// How deep objects and arrays are nested. The text may be no JSON.
std::size_t depth_of(std::string_view text) {
    std::size_t depth = 0;
    std::size_t deepest = 0;
    bool is_in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (is_in_string && text[i] == '\\')
            ++i;
        else if (text[i] == '"')
            is_in_string = !is_in_string;
        else if (!is_in_string && (text[i] == '{' || text[i] == '['))
            deepest = std::max(deepest, ++depth);
        else if (!is_in_string && (text[i] == '}' || text[i] == ']') && depth > 0)
            --depth;
    }
    return deepest;
}

bool is_space(char character) {
    return character == ' ' || character == '\t' || character == '\n' || character == '\r';
}

}  // namespace

class JsonMetadataParser {
  public:
    JsonMetadataParser() { trace_.has_roles = true; }

    // Reads the fragments that follow those of the last call.
    Result<void> read(std::string_view text);
    // Call this when there are no more.
    Result<void> finish() const;

    [[nodiscard]] bool has_trace_class() const { return has_trace_class_; }
    [[nodiscard]] const TraceClass& trace_class() const { return trace_; }
    TraceClass take_trace_class() { return std::move(trace_); }
    [[nodiscard]] std::uint64_t fragments_read() const { return fragments_read_; }

  private:
    Result<void> fragment(std::string_view text);
    Result<void> declaration(const Json& fragment);

    Result<void> preamble(const Json& fragment);
    Result<void> trace(const Json& fragment);
    Result<void> clock(const Json& fragment);
    Result<void> stream(const Json& fragment);
    Result<void> event(const Json& fragment);

    Result<void> environment(const Json& entries);
    Result<std::optional<StructClass>> scope(const JsonProperties& properties, std::string_view name);

    JsonFieldClasses classes_;
    TraceClass trace_;
    bool has_preamble_ = false;
    bool has_trace_class_ = false;
    std::uint64_t fragments_read_ = 0;
    // Ordered, not hashed: the author of the text chooses the keys.
    std::set<std::string, std::less<>> clock_ids_;
    std::map<std::uint64_t, std::size_t> stream_by_id_;          // index into trace_.streams
    std::set<std::pair<std::size_t, std::uint64_t>> event_ids_;  // stream, id
};

Result<void> JsonMetadataParser::read(std::string_view text) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(kFragmentBegin), text.size());
        const std::string_view piece = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        // Several separators in a row are as good as one.
        if (std::ranges::all_of(piece, is_space)) continue;
        ++fragments_read_;
        auto read = fragment(piece);
        if (!read) return wrap(fmt::format("fragment {}", fragments_read_), std::move(read).error());
    }
    return {};
}

Result<void> JsonMetadataParser::finish() const {
    if (trace_.streams.empty()) return corrupt("there is no data-stream-class");
    return {};
}

Result<void> JsonMetadataParser::fragment(std::string_view text) {
    if (text.size() > kMaxFragmentSize)
        return refused("it has {} bytes; the limit is {}", text.size(), kMaxFragmentSize);
    if (depth_of(text) > kMaxDepth) return corrupt("JSON is nested deeper than {} levels", kMaxDepth);
    Json parsed;
    try {
        parsed = Json::parse(text);
    } catch (const Json::parse_error& error) {
        return corrupt("no JSON from byte {} of {} on", error.byte, text.size());
    } catch (const Json::exception&) {
        return corrupt("a number in its JSON is too large");
    }
    return declaration(parsed);
}

Result<void> JsonMetadataParser::declaration(const Json& fragment) {
    using Declare = Result<void> (JsonMetadataParser::*)(const Json&);
    static const std::map<std::string_view, Declare> kDeclarations{
        {"preamble", &JsonMetadataParser::preamble},        {"trace-class", &JsonMetadataParser::trace},
        {"clock-class", &JsonMetadataParser::clock},        {"data-stream-class", &JsonMetadataParser::stream},
        {"event-record-class", &JsonMetadataParser::event},
    };
    if (!fragment.is_object()) return corrupt("expected an object, found {}", shown(fragment));
    const auto found = fragment.find("type");
    if (found == fragment.end() || !found->is_string())
        return corrupt("type: expected a string, found {}", found == fragment.end() ? "none" : shown(*found));
    const auto type = found->get<std::string>();
    if (!has_preamble_ && type != "preamble") return corrupt("the first must be a preamble, not {}", shown(type));
    auto declared = Result<void>();
    if (type == "field-class-alias") {
        declared = classes_.declare_alias(fragment);
    } else {
        const auto declare = kDeclarations.find(type);
        if (declare == kDeclarations.end()) return corrupt("type: {} is unknown", shown(type));
        declared = (this->*declare->second)(fragment);
    }
    if (!declared) return wrap(type, std::move(declared).error());
    return {};
}

Result<void> JsonMetadataParser::preamble(const Json& fragment) {
    if (std::exchange(has_preamble_, true)) return corrupt("there is one already");
    const auto properties = LEAT_TRY(JsonProperties::open(fragment, {"type", "version", "uuid"}));
    const std::uint64_t version = LEAT_TRY(properties.number("version", 0, UINT64_MAX));
    if (version != 2) return unsupported("version {} of CTF; 1.8 and 2 can be read", version);
    if (const Json* const bytes = properties.find("uuid")) trace_.uuid = LEAT_TRY(uuid_of(*bytes));
    return {};
}

Result<void> JsonMetadataParser::trace(const Json& fragment) {
    if (has_trace_class_) return corrupt("it is declared twice, or after a data-stream-class");
    const auto properties = LEAT_TRY(JsonProperties::open(
        fragment, {"type", "namespace", "name", "uid", "environment", "packet-header-field-class"}));
    LEAT_TRY(properties.text_or("namespace", ""));
    LEAT_TRY(properties.text_or("name", ""));
    // The directories of a trace have one UID. LTTng's is the UUID of its traces of CTF 1.8.
    const std::string uid = LEAT_TRY(properties.text_or("uid", ""));
    if (!trace_.uuid) trace_.uuid = parse_uuid(uid);
    LEAT_TRY(environment(*LEAT_TRY(properties.object("environment"))));
    trace_.packet_header = LEAT_TRY(scope(properties, "packet-header-field-class"));
    has_trace_class_ = true;
    return {};
}

Result<void> JsonMetadataParser::environment(const Json& entries) {
    if (entries.size() > kMaxEnvironmentEntries)
        return corrupt("environment: more than {} entries", kMaxEnvironmentEntries);
    for (const auto& [name, value] : entries.items()) {
        LEAT_TRY(classes_.charge(sizeof(EnvironmentEntry)));
        EnvironmentEntry entry{name, {}};
        const auto number = integer_bits(value, true);
        if (!number && !value.is_string())
            return corrupt("environment: {}: expected an integer or a string, found {}", shown(name), shown(value));
        if (number)
            entry.value = static_cast<std::int64_t>(*number);
        else
            entry.value = value.get<std::string>();
        trace_.environment.push_back(std::move(entry));
    }
    return {};
}

Result<void> JsonMetadataParser::clock(const Json& fragment) {
    LEAT_TRY(classes_.charge(sizeof(ClockClass)));
    const auto properties =
        LEAT_TRY(JsonProperties::open(fragment, {"type", "id", "namespace", "name", "uid", "description", "frequency",
                                                 "origin", "offset-from-origin", "precision", "accuracy"}));
    ClockClass clock;
    clock.name = LEAT_TRY(properties.text("id"));
    clock.description = LEAT_TRY(properties.text_or("description", ""));
    LEAT_TRY(properties.text_or("namespace", ""));
    LEAT_TRY(properties.text_or("name", ""));
    clock.uuid = parse_uuid(LEAT_TRY(properties.text_or("uid", "")));
    clock.frequency = LEAT_TRY(properties.number("frequency", 1, UINT64_MAX));
    clock.precision = LEAT_TRY(properties.number("precision", 0, UINT64_MAX, 0));
    LEAT_TRY(properties.number("accuracy", 0, UINT64_MAX, 0));
    if (const Json* const origin = properties.find("origin")) {
        clock.is_absolute = *origin == "unix-epoch";
        if (!clock.is_absolute && !origin->is_object())
            return corrupt("origin: expected \"unix-epoch\" or an object, found {}", shown(*origin));
    }
    const Json& offset = *LEAT_TRY(properties.object("offset-from-origin"));
    const auto parts = LEAT_TRY(JsonProperties::open(offset, {"seconds", "cycles"}));
    const Json* const seconds = parts.find("seconds");
    const auto number = seconds == nullptr ? std::optional<std::uint64_t>(0) : integer_bits(*seconds, true);
    if (!number) return corrupt("offset-from-origin: seconds: expected an integer, found {}", shown(*seconds));
    clock.offset_s = static_cast<std::int64_t>(*number);
    clock.offset = LEAT_TRY(parts.number("cycles", 0, clock.frequency - 1, 0));
    LEAT_TRY(classes_.charge(clock.name.size() + clock.description.size()));
    if (!clock_ids_.insert(clock.name).second) return corrupt("id: {} is declared twice", shown(clock.name));
    trace_.clocks.push_back(std::move(clock));
    return {};
}

Result<void> JsonMetadataParser::stream(const Json& fragment) {
    // A trace whose packets have no header needs no class of its own.
    has_trace_class_ = true;
    LEAT_TRY(classes_.charge(sizeof(StreamClass)));
    const auto properties = LEAT_TRY(JsonProperties::open(
        fragment, {"type", "id", "namespace", "name", "uid", "default-clock-class-id", "packet-context-field-class",
                   "event-record-header-field-class", "event-record-common-context-field-class"}));
    StreamClass stream;
    stream.id = LEAT_TRY(properties.number("id", 0, UINT64_MAX, 0));
    for (const std::string_view name : {"namespace", "name", "uid"}) LEAT_TRY(properties.text_or(name, ""));
    if (properties.find("default-clock-class-id") != nullptr) {
        stream.clock = LEAT_TRY(properties.text("default-clock-class-id"));
        if (!clock_ids_.contains(stream.clock))
            return corrupt("default-clock-class-id: clock {} is not declared", shown(stream.clock));
    }
    stream.packet_context = LEAT_TRY(scope(properties, "packet-context-field-class"));
    stream.event_header = LEAT_TRY(scope(properties, "event-record-header-field-class"));
    stream.event_context = LEAT_TRY(scope(properties, "event-record-common-context-field-class"));
    if (!stream_by_id_.emplace(stream.id, trace_.streams.size()).second)
        return corrupt("id: {} is declared twice", stream.id);
    trace_.streams.push_back(std::move(stream));
    return {};
}

Result<void> JsonMetadataParser::event(const Json& fragment) {
    LEAT_TRY(classes_.charge(sizeof(EventClass)));
    const auto properties =
        LEAT_TRY(JsonProperties::open(fragment, {"type", "id", "data-stream-class-id", "namespace", "name", "uid",
                                                 "specific-context-field-class", "payload-field-class"}));
    const std::uint64_t stream_id = LEAT_TRY(properties.number("data-stream-class-id", 0, UINT64_MAX, 0));
    const auto stream = stream_by_id_.find(stream_id);
    if (stream == stream_by_id_.end()) return corrupt("data-stream-class-id: {} is not declared", stream_id);
    EventClass event;
    event.id = LEAT_TRY(properties.number("id", 0, UINT64_MAX, 0));
    for (const std::string_view name : {"namespace", "uid"}) LEAT_TRY(properties.text_or(name, ""));
    event.name = escaped(LEAT_TRY(properties.text_or("name", kNoName)));
    event.log_level = log_level_of(fragment);
    event.model_uri = model_uri_of(fragment);
    LEAT_TRY(classes_.charge(event.name.size() + event.model_uri.size()));
    event.context = LEAT_TRY(scope(properties, "specific-context-field-class"));
    event.fields = LEAT_TRY(scope(properties, "payload-field-class"));
    if (!event_ids_.insert({stream->second, event.id}).second)
        return corrupt("id: event {} of stream {} is declared twice", event.id, stream_id);
    trace_.streams[stream->second].events.push_back(std::move(event));
    return {};
}

Result<std::optional<StructClass>> JsonMetadataParser::scope(const JsonProperties& properties, std::string_view name) {
    const Json* const value = properties.find(name);
    if (value == nullptr) return std::optional<StructClass>();
    auto parsed = classes_.scope(*value);
    if (!parsed) return wrap(name, std::move(parsed).error());
    return std::optional<StructClass>(*std::move(parsed));
}

JsonMetadataReader::JsonMetadataReader() : parser_(std::make_unique<JsonMetadataParser>()) {}
JsonMetadataReader::~JsonMetadataReader() = default;

Result<void> JsonMetadataReader::read(std::string_view text) {
    if (failure_) return tl::unexpected(*failure_);
    auto read = parser_->read(text.substr(read_size_));
    read_size_ = text.size();
    if (!read) failure_ = read.error();
    return read;
}

const TraceClass* JsonMetadataReader::trace_class() const {
    return parser_->has_trace_class() ? &parser_->trace_class() : nullptr;
}

std::uint64_t JsonMetadataReader::fragments_read() const { return parser_->fragments_read(); }

Result<TraceClass> parse_json_metadata(std::string_view text) {
    JsonMetadataParser parser;
    LEAT_TRY(parser.read(text));
    LEAT_TRY(parser.finish());
    return parser.take_trace_class();
}

}  // namespace leat::ctf
