#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/result.hpp"
#include "ctf/decode/packet_decoder.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/recent_packets.hpp"

namespace leat::viewer {

// The bytes are not those any more in which an event was found.
tl::unexpected<Error> changed(const PacketView& packet);

// Decodes events of packets of any streams, in any order; best all of a stream's packet before its next. Each thread
// has its own. Plans must outlive it, and may grow. An error: the bytes are not those any more in which the event was
// found.
class EventDecoder {
  public:
    // What is decoded stays as it is until the next call.
    Result<const ctf::EventRecord*> decode(const PacketView& packet, const ctf::EventPlace& place);
    // A decoder that stands behind the packet's context.
    Result<ctf::PacketDecoder*> enter(const PacketView& packet);

  private:
    struct State {
        std::uint64_t packet = 0;  // that `decoder` is in
        std::optional<ctf::PacketDecoder> decoder{};
    };

    State& state_of(const PacketView& packet);

    std::unordered_map<const StreamIdentity*, std::unique_ptr<State>> streams_{};
    RecentPackets<State*> recent_{};  // those of their streams
    State* last_ = nullptr;           // whose event was decoded last
};

}  // namespace leat::viewer
