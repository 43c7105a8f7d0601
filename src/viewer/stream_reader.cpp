#include "viewer/stream_reader.hpp"

#include <string>
#include <utility>

namespace leat::viewer {
namespace {

// LTTng leaves timestamp_end at 0 in a packet that was still open when the traced program crashed.
bool leaves_packets_open(const ctf::TraceClass& trace_class) {
    const std::string* const tracer = ctf::environment_text(trace_class, "tracer_name");
    return tracer != nullptr && tracer->starts_with("lttng-");
}

}  // namespace

StreamReader::StreamReader(const RecordedTrace& trace, const RecordedStream& stream)
    : trace_class_(&trace.trace_class()),
      stream_(&stream),
      decoder_(*stream.plan),
      forgives_open_packets_(leaves_packets_open(trace.trace_class())) {}

Result<bool> StreamReader::next() {
    while (queue_.empty()) {
        if (packet_ == nullptr && next_packet_ == stream_->packets.size()) return false;
        const RecordedPacket& packet = packet_ == nullptr ? stream_->packets[next_packet_++] : *packet_;
        auto is_event = packet_ == nullptr ? start_packet(packet).map([] { return false; }) : next_in_packet();
        if (!is_event) return wrap(packet.file->path.string(), std::move(is_event).error());
        if (*is_event) return true;
    }
    message_ = queue_.front();
    queue_.pop_front();
    return true;
}

Result<bool> StreamReader::next_in_packet() {
    if (LEAT_TRY(decoder_.next())) {
        last_ns_ = decoder_.record().time_ns;
        message_ = message_of(Message::Kind::kEvent, last_ns_);
        message_.event = &decoder_.record();
        return true;
    }
    previous_ = packet_->properties;
    previous_->end_ns = end_of(packet_->properties);
    queue(Message::Kind::kPacketEnd, previous_->end_ns);
    packet_ = nullptr;
    return false;
}

Result<void> StreamReader::start_packet(const RecordedPacket& packet) {
    const UntrustedBytes file = packet.file->mapping.bytes();
    const ctf::PacketProperties properties = LEAT_TRY(decoder_.start(file.subspan(packet.offset), packet.offset));
    packet_ = &packet;
    last_ns_ = properties.begin_ns;
    queue_discarded_events(properties);
    queue_discarded_packets(properties);
    queue(Message::Kind::kPacketBegin, properties.begin_ns);
    return {};
}

// The counter is cumulative and counts up to the end of the packet that carries it.
void StreamReader::queue_discarded_events(const ctf::PacketProperties& packet) {
    if (!packet.events_discarded) return;
    if (!previous_ || !previous_->events_discarded) {
        // How many of them were lost before this packet began is unknown.
        if (*packet.events_discarded != 0)
            queue(Message::Kind::kDiscardedEvents, packet.begin_ns, {{}, packet.begin_ns, end_of(packet)});
        return;
    }
    const std::uint64_t count = *packet.events_discarded - *previous_->events_discarded;
    if (count != 0)
        queue(Message::Kind::kDiscardedEvents, previous_->end_ns, {count, previous_->end_ns, end_of(packet)});
}

void StreamReader::queue_discarded_packets(const ctf::PacketProperties& packet) {
    if (!packet.sequence_number || !previous_ || !previous_->sequence_number) return;
    const std::uint64_t distance = *packet.sequence_number - *previous_->sequence_number;
    if (distance > 1)
        queue(Message::Kind::kDiscardedPackets, previous_->end_ns, {distance - 1, previous_->end_ns, packet.begin_ns});
}

void StreamReader::queue(Message::Kind kind, std::optional<std::int64_t> time_ns, Loss loss) {
    queue_.push_back(message_of(kind, time_ns));
    queue_.back().loss = loss;
}

Message StreamReader::message_of(Message::Kind kind, std::optional<std::int64_t> time_ns) const {
    Message message;
    message.kind = kind;
    message.time_ns = time_ns;
    message.trace_class = trace_class_;
    message.stream = stream_;
    return message;
}

std::optional<std::int64_t> StreamReader::end_of(const ctf::PacketProperties& packet) const {
    return forgives_open_packets_ && packet.end_cycles == std::uint64_t{0} ? last_ns_ : packet.end_ns;
}

}  // namespace leat::viewer
