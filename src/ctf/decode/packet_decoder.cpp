#include "ctf/decode/packet_decoder.hpp"

#include <utility>

#include "ctf/decode/plain_events.hpp"
#include "ctf/record/packet_header.hpp"

namespace leat::ctf {

PacketDecoder::PacketDecoder(const DecodePlan& plan) : plan_(&plan), decoder_(plan) {
    if (plan.clock != nullptr) clock_.emplace(*plan.clock);
}

Result<PacketProperties> PacketDecoder::start(UntrustedBytes bytes, std::uint64_t offset) {
    LEAT_TRY(start_header(bytes, offset));
    return start_context();
}

Result<std::optional<std::uint64_t>> PacketDecoder::start_header(UntrustedBytes bytes, std::uint64_t offset) {
    offset_ = offset;
    rest_size_ = bytes.size();
    packet_context_.clear();
    values_.clear();
    decoder_.start_packet(bytes, bytes.size() * 8);
    auto decoded = header();
    if (!decoded) return packet_error(std::move(decoded).error());
    return decoder_.role(FieldRole::kStreamId);
}

Result<void> PacketDecoder::header() {
    LEAT_TRY(decoder_.decode(plan_->packet_header, values_, kMaxHeaderValues));
    if (decoder_.role(FieldRole::kMagic).value_or(kPacketMagic) != kPacketMagic)
        return corrupt("its magic number is not that of CTF");
    return {};
}

Result<PacketProperties> PacketDecoder::start_context() {
    auto decoded = decoder_.decode(plan_->packet_context, packet_context_, kMaxContextValues);
    if (!decoded) return packet_error(std::move(decoded).error());
    auto properties = this->properties();
    if (!properties) return packet_error(std::move(properties).error());
    if (!decoder_.set_end(properties->content_bits))
        return packet_error(corrupt("more fields than its bytes can hold").value());
    texts_of_packet_ = decoder_.texts_made();
    return properties;
}

tl::unexpected<Error> PacketDecoder::packet_error(Error error) const {
    return wrap(fmt::format("packet at offset {}", offset_), std::move(error));
}

Result<PacketProperties> PacketDecoder::properties() const {
    PacketProperties properties;
    // A packet that does not state its size is as large as its content. If it does not state that either, it takes the
    // rest of the file.
    const std::uint64_t rest_bits = rest_size_ * 8;
    const std::uint64_t packet_bits =
        decoder_.role(FieldRole::kPacketSize).value_or(decoder_.role(FieldRole::kContentSize).value_or(rest_bits));
    if (packet_bits % 8 != 0) return corrupt("its size of {} bits is not a number of bytes", packet_bits);
    properties.packet_size = packet_bits / 8;
    properties.content_bits = decoder_.role(FieldRole::kContentSize).value_or(packet_bits);
    if (properties.content_bits > packet_bits) return corrupt("its content is larger than itself");
    if (properties.content_bits < decoder_.position()) return corrupt("it is smaller than its own header");
    properties.stream_instance_id = decoder_.role(FieldRole::kStreamInstanceId);
    properties.sequence_number = decoder_.role(FieldRole::kPacketSequenceNumber);
    properties.events_discarded = decoder_.role(FieldRole::kEventsDiscarded);
    if (decoder_.has_clock()) properties.begin_ns = LEAT_TRY(time_of(decoder_.clock()));
    properties.end_cycles = end_cycles();
    properties.end_ns = LEAT_TRY(time_of(properties.end_cycles));
    return properties;
}

// A narrow end is the first time of those bits after the begin. 0 says that the packet has not ended.
std::optional<std::uint64_t> PacketDecoder::end_cycles() const {
    const auto end = decoder_.role(FieldRole::kTimestampEnd);
    if (!end || *end == 0) return end;
    return extend_timestamp(decoder_.clock(), *end, plan_->end_size);
}

Result<std::optional<std::int64_t>> PacketDecoder::time_of(std::optional<std::uint64_t> cycles) const {
    if (!cycles || !clock_) return std::optional<std::int64_t>();
    const std::optional<std::int64_t> ns = clock_->nanoseconds(*cycles);
    if (!ns) return corrupt("clock value {} is out of range", *cycles);
    return ns;
}

Result<bool> PacketDecoder::next() {
    if (decoder_.remaining() == 0) return false;
    const std::uint64_t begin = decoder_.position();
    auto decoded = event();
    if (decoded && decoder_.position() == begin) decoded = corrupt("it takes no bits");
    if (!decoded) return wrap(fmt::format("event at offset {}", offset_ + begin / 8), std::move(decoded).error());
    return true;
}

Result<std::size_t> PacketDecoder::locate(std::span<EventPlace> places) {
    std::size_t found = locate_plain(places);
    while (found < places.size() && decoder_.remaining() != 0) {
        EventPlace& place = places[found];
        place.begin = decoder_.position();
        const EventCursor before = decoder_.cursor();
        if (!locate(place) || decoder_.position() == place.begin) {
            decoder_.go_on_from(before);
            auto is_event = next();
            if (!is_event) {
                decoder_.go_on_from(before);
                if (found == 0) return tl::unexpected(std::move(is_event).error());
                break;
            }
            place.payload = payload_;
            place.cycles = record_.cycles.value_or(0);
            place.time_ns = record_.time_ns.value_or(0);
            place.event = static_cast<std::uint32_t>(event_ - plan_->events.data());
            give_back_memory();
        }
        ++found;
        // Where there is one of those, there are more.
        if (plan_->events[place.event].layout.plain) found += locate_plain(places.subspan(found));
    }
    return found;
}

// Whatever was decoded before, the header says again what the clock is.
Result<void> PacketDecoder::decode(const EventPlace& place) {
    decoder_.seek(place.begin);
    decoder_.set_clock(place.cycles);
    return event();
}

Result<void> PacketDecoder::decode_contexts(const EventPlace& place) {
    const EventPlan& event = plan_->events[place.event];
    if (plan_->context_layout.is_for_decoder || event.layout.is_for_decoder) return decode(place);
    values_.clear();
    decoder_.forget_texts(texts_of_packet_);
    decoder_.seek(place.payload);
    const EventCursor begin = decoder_.cursor();
    scope_ends_[0] = 0;
    LEAT_TRY(scope(plan_->event_context, 1));
    LEAT_TRY(scope(event.context, 2));
    // The layout has the contexts, too.
    decoder_.go_on_from(begin);
    if (!decoder_.skip(plan_->context_layout) || !decoder_.skip(event.layout)) {
        decoder_.go_on_from(begin);
        return decode(place);
    }
    scope_ends_[3] = scope_ends_[2];
    event_ = &event;
    payload_ = place.payload;
    if (clock_) {
        record_.cycles = place.cycles;
        record_.time_ns = place.time_ns;
    }
    fill_record();
    return {};
}

// The usual way to an event. Where it does not lead there, event() does, or says why not.
bool PacketDecoder::locate(EventPlace& place) {
    const auto id = decoder_.short_header(plan_->header_form);
    if (!id) return false;
    const EventPlan* const event = plan_->find_event(*id);
    if (event == nullptr || event->layout.is_for_decoder) return false;
    place.event = static_cast<std::uint32_t>(event - plan_->events.data());
    place.payload = decoder_.position();
    place.cycles = clock_ ? decoder_.clock() : 0;
    place.time_ns = 0;
    if (clock_ && !clock_->convert(place.cycles, place.time_ns)) return false;
    const std::uint64_t fields_left = decoder_.fields_left();
    if (!decoder_.skip(plan_->context_layout) || !decoder_.skip(event->layout)) return false;
    return fields_left - decoder_.fields_left() <= kMaxValues;
}

std::size_t PacketDecoder::locate_plain(std::span<EventPlace> places) {
    EventCursor cursor = decoder_.cursor();
    const std::size_t found = locate_plain_events(*plan_, clock_ ? &*clock_ : nullptr, cursor, places);
    decoder_.go_on_from(cursor);
    return found;
}

Result<void> PacketDecoder::event() {
    values_.clear();
    decoder_.forget_texts(texts_of_packet_);
    decoder_.forget(FieldRole::kEventId);
    LEAT_TRY(scope(plan_->event_header, 0));
    const EventPlan* const event = LEAT_TRY(event_plan());
    event_ = event;
    payload_ = decoder_.position();
    if (clock_) record_.cycles = decoder_.clock();
    record_.time_ns = LEAT_TRY(time_of(record_.cycles));
    LEAT_TRY(scope(plan_->event_context, 1));
    LEAT_TRY(scope(event->context, 2));
    LEAT_TRY(scope(event->fields, 3));
    fill_record();
    return {};
}

void PacketDecoder::fill_record() {
    const std::span<const FieldValue> values(values_);
    record_.event_class = event_->event_class;
    record_.packet_context = packet_context_;
    record_.event_context = values.subspan(scope_ends_[0], scope_ends_[1] - scope_ends_[0]);
    record_.context = values.subspan(scope_ends_[1], scope_ends_[2] - scope_ends_[1]);
    record_.fields = values.subspan(scope_ends_[2], scope_ends_[3] - scope_ends_[2]);
}

Result<const EventPlan*> PacketDecoder::event_plan() const {
    std::optional<std::uint64_t> id = decoder_.role(FieldRole::kEventId);
    if (!id && plan_->events.size() == 1) return &plan_->events.front();
    if (!id && plan_->has_roles) id = 0;
    if (!id) return corrupt("it has no id, and stream {} has several events", plan_->stream_class->id);
    const EventPlan* const event = plan_->find_event(*id);
    if (event == nullptr) return corrupt("event id {} is not declared in stream {}", *id, plan_->stream_class->id);
    return event;
}

Result<void> PacketDecoder::scope(PlanRoot root, std::size_t index) {
    LEAT_TRY(decoder_.decode(root, values_));
    scope_ends_[index] = values_.size();
    return {};
}

}  // namespace leat::ctf
