#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "ctf/decode/packet_decoder.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// Remembers which packets have been shown: a producer that reconnects sends some of them again, and a relay may bring
// earlier ones after later ones. Of streams that come and go, those are forgotten that had none for long.
class ShownPackets {
  public:
    // So many streams are remembered at least, and twice as many at most.
    explicit ShownPackets(std::size_t streams = 65536) : streams_(streams) {}

    // Notes the packet as shown. Returns how many packets are missing between it and the last one that was shown, or
    // nothing if it has been shown before. Packets without a number are always new.
    std::optional<std::uint64_t> add(const ctf::TraceClass& trace_class, std::uint64_t stream_class_id,
                                     const ctf::PacketProperties& packet);

  private:
    using Key = std::tuple<ctf::Uuid, std::uint64_t, std::uint64_t>;  // trace, stream class and instance
    // Numbers without a gap. A stream nearly always has one span. Of more than so many, the first two become one.
    struct Span {
        std::uint64_t first;
        std::uint64_t last;
    };
    static constexpr std::size_t kMaxSpans = 64;

    using Streams = std::map<Key, std::vector<Span>>;  // in the order of their numbers

    std::vector<Span>& spans_of(const Key& key);
    static std::optional<std::uint64_t> add(std::vector<Span>& spans, std::uint64_t number);

    std::size_t streams_;
    Streams recent_;
    Streams former_;  // what was recent before, and has not become so again
};

}  // namespace leat::viewer
