#include "viewer/sink/text_sink.hpp"

#include <algorithm>
#include <array>

#include "ctf/model/log_level.hpp"
#include "viewer/sink/field_text.hpp"

namespace leat::viewer {
namespace {

std::string log_level_text(const ctf::EventClass& event_class) {
    const std::optional<std::int64_t> level = event_class.log_level;
    if (!level || *level < 0 || *level >= static_cast<std::int64_t>(ctf::kLogLevels.size())) return {};
    return fmt::format("{} ({})", ctf::kLogLevels[static_cast<std::size_t>(*level)], *level);
}

std::string_view who_lost(Message::Kind kind) {
    switch (kind) {
        case Message::Kind::kLostPackets:
            return "Network lost";
        case Message::Kind::kMissedPackets:
            return "Missed";
        default:
            return "Tracer discarded";
    }
}

std::string text_of(const ctf::TraceClass& trace_class, std::string_view name) {
    const std::string* const text = ctf::environment_text(trace_class, name);
    return text == nullptr ? std::string() : *text;
}

}  // namespace

Result<void> TextSink::consume(const Message& message) {
    switch (message.kind) {
        case Message::Kind::kEvent:
            event(message);
            return output_.flush_if_full();
        case Message::Kind::kDiscardedEvents:
        case Message::Kind::kDiscardedPackets:
        case Message::Kind::kLostPackets:
        case Message::Kind::kMissedPackets:
            return loss(message);
        default:
            return {};
    }
}

Result<void> TextSink::flush() {
    LEAT_TRY(output_.flush());
    return warnings_.flush();
}

void TextSink::event(const Message& message) {
    const ctf::EventRecord& event = *message.event;
    times(event);
    head(message);
    output_.append(name_or("name = ", ""));
    output_.append(event.event_class->name);
    output_.append(name_or(", ", ": "));
    has_scope_ = false;
    scope("stream.packet.context", event.packet_context, options_.names_context);
    scope("stream.event.context", event.event_context, options_.names_context);
    scope("event.context", event.context, options_.names_context);
    scope("event.fields", event.fields, options_.names_payload);
    output_.append('\n');
}

void TextSink::times(const ctf::EventRecord& event) {
    if (!event.time_ns) return;
    output_.append(name_or("timestamp = ", "["));
    time_text_.append(output_, *event.time_ns);
    output_.append(name_or(", ", "] "));
    if (options_.has_delta) delta(*event.time_ns);
    previous_ns_ = event.time_ns;
}

void TextSink::delta(std::int64_t time_ns) {
    // Time goes back in live sessions only.
    const bool is_backwards = previous_ns_ && time_ns < *previous_ns_;
    output_.append(name_or("delta = ", "("));
    output_.append(is_backwards ? '-' : '+');
    if (previous_ns_) {
        const auto [earlier, later] = std::minmax(time_ns, *previous_ns_);
        const auto delta_ns = static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier);
        output_.append_number(delta_ns / kNanosecondsPerSecond);
        output_.append('.');
        append_nanoseconds(output_, delta_ns % kNanosecondsPerSecond);
    } else {
        output_.append("?.?????????");
    }
    output_.append(name_or(", ", ") "));
}

// The trace's part of a line is the same for all its events. Log level and URI depend on the event.
void TextSink::head(const Message& message) {
    const TraceHead& trace_head = head_of(message);
    output_.append(trace_head.text);
    bool has_fields = trace_head.has_fields;
    if (options_.shows_log_level || options_.shows_emf_uri) {
        const ctf::EventClass& event_class = *message.event->event_class;
        std::string text;
        if (options_.shows_log_level) append_head_field(text, has_fields, "loglevel", log_level_text(event_class));
        if (options_.shows_emf_uri) append_head_field(text, has_fields, "model.emf.uri", event_class.model_uri);
        output_.append(text);
    }
    if (has_fields) output_.append(name_or("", " "));
}

const TextSink::TraceHead& TextSink::head_of(const Message& message) {
    const auto [entry, is_new] = heads_.try_emplace(message.stream->trace_number);
    TraceHead& head = entry->second;
    if (!is_new) return head;
    const ctf::TraceClass& trace_class = *message.trace_class;
    const std::string hostname = text_of(trace_class, "hostname");
    // A trace is named by its host. The name has no separator after it, unlike the other fields, as in babeltrace2.
    if (options_.shows_trace) head.text = options_.names_header ? fmt::format("trace = {}, , ", hostname) : hostname;
    const auto add = [&](bool is_shown, std::string_view name, std::string_view value) {
        if (is_shown) append_head_field(head.text, head.has_fields, name, value);
    };
    add(options_.shows_hostname, "trace:hostname", hostname);
    add(options_.shows_domain, "trace:domain", text_of(trace_class, "domain"));
    add(options_.shows_procname, "trace:procname", text_of(trace_class, "procname"));
    const std::int64_t* const vpid = ctf::environment_number(trace_class, "vpid");
    if (vpid != nullptr) add(options_.shows_vpid, "trace:vpid", fmt::format("({})", *vpid));
    return head;
}

void TextSink::append_head_field(std::string& head, bool& has_fields, std::string_view name,
                                 std::string_view value) const {
    if (value.empty()) return;
    if (options_.names_header)
        head += fmt::format("{} = {}, ", name, value);
    else
        head += fmt::format("{}{}", has_fields ? ":" : "", value);
    has_fields = true;
}

void TextSink::scope(std::string_view name, std::span<const ctf::FieldValue> values, bool has_names) {
    if (values.empty()) return;
    if (has_scope_) output_.append(", ");
    has_scope_ = true;
    if (options_.names_scope) {
        output_.append(name);
        output_.append(" = ");
    }
    append_fields(output_, values, has_names);
}

// Warnings are written at once, so that a person who watches sees them beside the events they are about.
Result<void> TextSink::loss(const Message& message) {
    const bool is_packets = message.kind != Message::Kind::kDiscardedEvents;
    const std::optional<std::uint64_t> count = message.loss.count;
    if (count)
        warnings_.append(fmt::format("WARNING: {} {} {}{}", who_lost(message.kind), *count,
                                     is_packets ? "packet" : "event", *count == 1 ? "" : "s"));
    else
        warnings_.append("WARNING: Tracer may have discarded events");
    loss_range(message.loss);
    const auto& uuid = message.trace_class->uuid;
    const bool is_missed = message.kind == Message::Kind::kMissedPackets;
    warnings_.append(fmt::format(" in trace \"{}\" {} within stream \"{}\" (stream class ID: {}, stream ID: {}){}.\n",
                                 text_of(*message.trace_class, "hostname"),
                                 uuid ? fmt::format("(UUID: {})", ctf::to_string(*uuid)) : "(no UUID)",
                                 message.stream->name, message.stream->class_id,
                                 message.stream->instance_id.value_or(0),
                                 is_missed ? ": their files were replaced before they were read" : ""));
    return warnings_.flush();
}

void TextSink::loss_range(const Loss& loss) {
    if (!loss.begin_ns || !loss.end_ns) return;
    warnings_.append(" between [");
    time_text_.append(warnings_, *loss.begin_ns);
    warnings_.append("] and [");
    time_text_.append(warnings_, *loss.end_ns);
    warnings_.append("]");
}

}  // namespace leat::viewer
