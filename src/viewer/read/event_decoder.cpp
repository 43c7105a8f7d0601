#include "viewer/read/event_decoder.hpp"

namespace leat::viewer {
namespace {

// Of what may grow as long as the program runs; what is forgotten is made anew.
constexpr std::size_t kMaxDecoders = 4096;

}  // namespace

tl::unexpected<Error> changed(const PacketView& packet) {
    return corrupt("{}: a packet has changed while it was read", packet.stream->name);
}

Result<const ctf::EventRecord*> EventDecoder::decode(const PacketView& packet, const ctf::EventPlace& place) {
    ctf::PacketDecoder& decoder = *LEAT_TRY(enter(packet));
    if (!decoder.decode(place) || !packet.is_whole()) return changed(packet);
    return &decoder.record();
}

// A decoder is made anew for each packet: what it remembers is of the packet before, which may be another stream's.
Result<ctf::PacketDecoder*> EventDecoder::enter(const PacketView& packet) {
    State& state = state_of(packet);
    if (last_ != nullptr && last_ != &state && last_->decoder) last_->decoder->give_back_memory();
    last_ = &state;
    if (state.packet == packet.number) return &*state.decoder;
    state.packet = 0;
    state.decoder.emplace(*packet.plan);
    const auto properties = state.decoder->start(packet.bytes, 0);
    if (!properties || properties->packet_size != packet.bytes.size() ||
        properties->content_bits != packet.content_bits || !packet.is_whole())
        return changed(packet);
    state.packet = packet.number;
    return &*state.decoder;
}

EventDecoder::State& EventDecoder::state_of(const PacketView& packet) {
    if (State* const state = recent_.of(packet.number)) return *state;
    if (streams_.size() >= kMaxDecoders && !streams_.contains(packet.stream)) {
        streams_.clear();
        recent_.forget();
        last_ = nullptr;
    }
    auto& state = streams_[packet.stream];
    if (state == nullptr) state = std::make_unique<State>();
    recent_.of(packet.number) = state.get();
    return *state;
}

}  // namespace leat::viewer
