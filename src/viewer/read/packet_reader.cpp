#include "viewer/read/packet_reader.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace leat::viewer {
namespace {

std::uint64_t next_packet_number() {
    static std::atomic<std::uint64_t> count = 0;
    return count.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Result<void> PacketReader::start(const ctf::TraceClass& trace_class, const ctf::DecodePlan& plan, UntrustedBytes bytes,
                                 std::uint64_t offset, const MappedFile* mapping) {
    use(plan);
    LEAT_TRY(begin(trace_class, LEAT_TRY(decoder_->start(bytes, offset)), bytes, offset));
    packet_.mapping = mapping;
    return {};
}

void PacketReader::use(const ctf::DecodePlan& plan) {
    if (plan_ != &plan) decoder_.emplace(plan);
    plan_ = &plan;
}

// Packets of one stream are of one class: the decoder of the packet before reads the header, and if the stream id is
// the same it goes on. Else, also if the header cannot be read, TracePlans finds the plan or says what is wrong.
Result<ctf::PacketProperties> PacketReader::read_head(ctf::TracePlans& plans, UntrustedBytes bytes,
                                                      std::uint64_t offset) {
    if (plans_ == &plans) {
        const auto stream_id = decoder_->start_header(bytes, offset);
        if (stream_id && *stream_id == stream_class_id()) {
            LEAT_TRY(plans.grow(*plan_));
            return decoder_->start_context();
        }
    }
    use(*LEAT_TRY(plans.plan_for(bytes)));
    plans_ = &plans;
    return decoder_->start(bytes, offset);
}

Result<void> PacketReader::begin(const ctf::TraceClass& trace_class, const ctf::PacketProperties& properties,
                                 UntrustedBytes bytes, std::uint64_t offset) {
    if (trace_class_ != &trace_class) quirks_ = TracerQuirks::of(trace_class);
    trace_class_ = &trace_class;
    properties_ = properties;
    if (properties_.packet_size > bytes.size())
        return corrupt("packet at offset {} is cut short: {} bytes of {}", offset, bytes.size(),
                       properties_.packet_size);
    packet_ = {.number = next_packet_number(),
               .trace_class = &trace_class,
               .plan = plan_,
               .stream = stream_,
               .bytes = bytes.first(properties_.packet_size),
               .content_bits = properties_.content_bits};
    place_count_ = next_place_ = 0;
    is_in_packet_ = true;
    last_ns_ = properties_.begin_ns;
    if (!is_late_) {
        queue_discarded_events(properties_);
        queue_discarded_packets(properties_);
    }
    has_missed_files_ = false;
    queue(Message::Kind::kPacketBegin, quirks_.begins_packets_late ? std::nullopt : properties_.begin_ns);
    return {};
}

void PacketReader::pass_over(const ctf::PacketProperties& properties) {
    lost_told_ += lost_before(properties);  // they were lost before what is read
    previous_ = properties;
}

Result<bool> PacketReader::next() {
    while (queue_.empty()) {
        if (!is_in_packet_) return false;
        if (LEAT_TRY(next_in_packet())) return true;
    }
    message_ = queue_.front();
    queue_.pop_front();
    return true;
}

Result<bool> PacketReader::next_in_packet() {
    if (next_place_ == place_count_) {
        places_.resize(events_at_once_ + 3);
        if (place_count_ != 0 && plan_->clock != nullptr) last_ns_ = places_[place_count_ - 1].time_ns;
        place_count_ = next_place_ = 0;
        place_count_ = LEAT_TRY(decoder_->locate(std::span(places_).first(events_at_once_)));
        places_[place_count_].time_ns = INT64_MIN;
    }
    if (place_count_ != 0) {
        tell(places_[next_place_++]);
        return true;
    }
    is_in_packet_ = false;
    const std::optional<std::int64_t> end_ns = end_of(properties_);
    if (!std::exchange(is_late_, false)) {
        previous_ = properties_;
        previous_->end_ns = end_ns;
    }
    queue(Message::Kind::kPacketEnd, end_ns);
    return false;
}

bool PacketReader::find_more(std::size_t left) {
    const auto end = places_.begin() + static_cast<std::ptrdiff_t>(place_count_);
    std::move(end - static_cast<std::ptrdiff_t>(left), end, places_.begin());
    next_place_ = 1;
    place_count_ = left;
    const auto found = decoder_->locate(std::span(places_).subspan(left, events_at_once_ - left));
    const bool is_more = found && *found != 0 && packet_.is_whole();
    if (is_more) place_count_ += *found;
    places_[place_count_].time_ns = INT64_MIN;
    return is_more;
}

void PacketReader::tell(const ctf::EventPlace& place) {
    if (message_.kind != Message::Kind::kEvent) message_ = message_of(Message::Kind::kEvent, {});
    if (plan_->clock != nullptr) message_.time_ns = place.time_ns;
    message_.packet = &packet_;
    message_.place = place;
}

// The counter is cumulative and includes everything up to the end of the packet that carries it.
void PacketReader::queue_discarded_events(const ctf::PacketProperties& packet) {
    if (!packet.events_discarded) return;
    if (!previous_ || !previous_->events_discarded) {
        // It is unknown how many of them were discarded before this packet began.
        if (*packet.events_discarded != 0)
            queue(Message::Kind::kDiscardedEvents, packet.begin_ns, {{}, packet.begin_ns, end_of(packet)});
        return;
    }
    const std::uint64_t count = *packet.events_discarded - *previous_->events_discarded;
    // As babeltrace2 has it, a counter that goes back by one tells of a number that is not known.
    const auto known = count == UINT64_MAX ? std::nullopt : std::optional(count);
    if (count != 0)
        queue(Message::Kind::kDiscardedEvents, previous_->end_ns, {known, previous_->end_ns, end_of(packet)});
}

// How many the network lost behind the packet before this one.
std::uint64_t PacketReader::lost_before(const ctf::PacketProperties& packet) const {
    if (!packet.sequence_number || !previous_ || !previous_->sequence_number) return 0;
    const auto& lost = stream_->lost_packets;
    const auto first = std::ranges::upper_bound(lost, *previous_->sequence_number);
    const auto last = std::ranges::lower_bound(lost, *packet.sequence_number);
    return static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(0, last - first));
}

void PacketReader::queue_discarded_packets(const ctf::PacketProperties& packet) {
    if (!packet.sequence_number || !previous_ || !previous_->sequence_number) return;
    const std::uint64_t distance = *packet.sequence_number - *previous_->sequence_number;
    if (distance <= 1) return;
    // Packets that the network lost were not discarded by the tracer.
    const std::uint64_t by_network = lost_before(packet);
    if (by_network != 0)
        queue(Message::Kind::kLostPackets, previous_->end_ns, {by_network, previous_->end_ns, packet.begin_ns});
    lost_told_ += by_network;
    const auto count = distance - 1 - by_network;
    if (count == 0 || count >= distance) return;
    const auto kind = has_missed_files_ ? Message::Kind::kMissedPackets : Message::Kind::kDiscardedPackets;
    queue(kind, previous_->end_ns, {count, previous_->end_ns, packet.begin_ns});
}

// Those that no packet follows, or precedes, or whose numbers are not known.
void PacketReader::finish() {
    const std::uint64_t lost = stream_->lost_packets.size();
    if (previous_ && lost > lost_told_)
        queue(Message::Kind::kLostPackets, previous_->end_ns, {lost - lost_told_, {}, {}});
    lost_told_ = lost;
}

void PacketReader::queue(Message::Kind kind, std::optional<std::int64_t> time_ns, Loss loss) {
    // A loss of which it is not known when it began and ended belongs to no time, as in babeltrace2.
    const bool is_tracers = kind == Message::Kind::kDiscardedEvents || kind == Message::Kind::kDiscardedPackets;
    if (is_tracers && (!loss.begin_ns || !loss.end_ns)) time_ns.reset();
    queue_.push_back(message_of(kind, time_ns));
    queue_.back().loss = loss;
}

Message PacketReader::message_of(Message::Kind kind, std::optional<std::int64_t> time_ns) const {
    Message message;
    message.kind = kind;
    message.time_ns = time_ns;
    message.trace_class = trace_class_;
    message.stream = stream_;
    return message;
}

std::optional<std::int64_t> PacketReader::end_of(const ctf::PacketProperties& packet) const {
    if (quirks_.leaves_packets_open && packet.end_cycles == std::uint64_t{0}) return last_ns_;
    if (quirks_.ends_packets_early && packet.end_ns && last_ns_) return std::max(*packet.end_ns, *last_ns_);
    return packet.end_ns;
}

}  // namespace leat::viewer
