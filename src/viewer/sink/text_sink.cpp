#include "viewer/sink/text_sink.hpp"

#include <string>
#include <string_view>

#include "viewer/merge/trace_name.hpp"

namespace leat::viewer {
namespace {

constexpr std::string_view kTracer = "Tracer discarded";

std::string_view who_lost(Message::Kind kind) {
    switch (kind) {
        case Message::Kind::kLostPackets:
            return "Network lost";
        case Message::Kind::kMissedPackets:
            return "Missed";
        default:
            return kTracer;
    }
}

}  // namespace

Result<void> TextSink::consume(const Message& message) {
    switch (message.kind) {
        case Message::Kind::kEvent:
            return event(message);
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

Result<void> TextSink::event(const Message& message) {
    LEAT_TRY(renderer_.append(output_, *message.packet, message.place, previous_));
    if (message.time_ns) previous_ = Moment{*message.time_ns, message.place.cycles};
    return output_.flush_if_full();
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
    loss_range(message);
    const auto& uuid = message.trace_class->uuid;
    const bool is_missed = message.kind == Message::Kind::kMissedPackets;
    warnings_.append(fmt::format(" in trace \"{}\" {} within stream \"{}\" (stream class ID: {}, stream ID: {}){}.\n",
                                 trace_name(*message.trace_class, message.stream->trace_path),
                                 uuid ? fmt::format("(UUID: {})", ctf::to_string(*uuid)) : "(no UUID)",
                                 message.stream->name, message.stream->class_id,
                                 message.stream->instance_id.value_or(0),
                                 is_missed ? ": their files were replaced before they were read" : ""));
    return warnings_.flush();
}

void TextSink::loss_range(const Message& message) {
    const Loss& loss = message.loss;
    if (!loss.begin_ns || !loss.end_ns) {
        if (who_lost(message.kind) == kTracer) warnings_.append(" (unknown time range)");
        return;
    }
    warnings_.append(" between [");
    time_text_.append(warnings_, *loss.begin_ns);
    warnings_.append("] and [");
    time_text_.append(warnings_, *loss.end_ns);
    warnings_.append("]");
}

}  // namespace leat::viewer
