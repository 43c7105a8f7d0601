#include "viewer/sink/loss_text.hpp"

#include <optional>
#include <string_view>

#include "viewer/merge/trace_name.hpp"
#include "viewer/sink/field_json.hpp"

namespace leat::viewer {
namespace {

struct Loser {
    std::string_view text;
    std::string_view json;
};
constexpr Loser kTracer{"Tracer discarded", "tracer"};

Loser who_lost(Message::Kind kind) {
    switch (kind) {
        case Message::Kind::kLostPackets:
            return {"Network lost", "network"};
        case Message::Kind::kMissedPackets:
            return {"Missed", "viewer"};
        default:
            return kTracer;
    }
}

template <class T>
std::string number_or_null(const std::optional<T>& number) {
    return number ? fmt::format("{}", *number) : "null";
}

}  // namespace

void LossText::append_warning(TextBuffer& buffer, const Message& message) {
    const bool is_packets = message.kind != Message::Kind::kDiscardedEvents;
    const std::optional<std::uint64_t> count = message.loss.count;
    for (const std::string_view part :
         {colors_.warning, colors_.value, std::string_view("WARNING"), colors_.end, colors_.warning})
        buffer.append(part);
    if (count)
        buffer.append(fmt::format(": {} {} {}{}", who_lost(message.kind).text, *count, is_packets ? "packet" : "event",
                                  *count == 1 ? "" : "s"));
    else
        buffer.append(": Tracer may have discarded events");
    append_range(buffer, message);
    const auto& uuid = message.trace_class->uuid;
    const bool is_missed = message.kind == Message::Kind::kMissedPackets;
    buffer.append(fmt::format(" in trace \"{}\" {} within stream \"{}\" (stream class ID: {}, stream ID: {}){}.{}\n",
                              trace_name(*message.trace_class, message.stream->trace_path),
                              uuid ? fmt::format("(UUID: {})", ctf::to_string(*uuid)) : "(no UUID)",
                              message.stream->name, message.stream->class_id, message.stream->instance_id.value_or(0),
                              is_missed ? ": their files were replaced before they were read" : "", colors_.end));
}

void LossText::append_range(TextBuffer& buffer, const Message& message) {
    const Loss& loss = message.loss;
    if (!loss.begin_ns || !loss.end_ns) {
        if (who_lost(message.kind).text == kTracer.text) buffer.append(" (unknown time range)");
        return;
    }
    buffer.append(" between [");
    time_text_.append(buffer, *loss.begin_ns);
    buffer.append("] and [");
    time_text_.append(buffer, *loss.end_ns);
    buffer.append("]");
}

void LossText::append_json_line(TextBuffer& buffer, const Message& message) {
    const Loss& loss = message.loss;
    const bool is_packets = message.kind != Message::Kind::kDiscardedEvents;
    buffer.append(fmt::format(
        R"({{"lost":"{}","by":"{}","count":{},"begin_ns":{},"end_ns":{},"stream_class_id":{},"stream_id":{},"stream":)",
        is_packets ? "packets" : "events", who_lost(message.kind).json, number_or_null(loss.count),
        number_or_null(loss.begin_ns), number_or_null(loss.end_ns), message.stream->class_id,
        number_or_null(message.stream->instance_id)));
    append_json_text(buffer, message.stream->name);
    buffer.append("}\n");
}

}  // namespace leat::viewer
