#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/byte_cursor.hpp"
#include "relay/store/pairing_table.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::relay {

// Packets of one stream that come as datagrams: pieces in any order, some twice, some never.
//
// Anybody can send a datagram, so a datagram proves nothing. Only the indexes on the control connection tell which
// packets there are. A packet waits here, also when it is whole, until its index says that its number and its size are
// real; it leaves when all before it have left, or did not become whole in time. Numbers far beyond the indexes are not
// taken at all:
//
//       taken, or lost        indexes wait for these       kAhead more
//   -----------------------|---------------------------|-----------------|------------ too far
//                        next                      last index
//
// A forged piece thus costs at most the packet whose number it bears. A producer that keeps at most 64 packets of at
// most kSmallPacket bytes under way has room for all of them, whatever else is sent: see drop_largest().
class DatagramWindow {
  public:
    // A piece of an announced packet comes within this time, or is lost.
    static constexpr std::chrono::milliseconds kMaxAge{500};
    // A control connection may be this much slower than datagrams.
    static constexpr std::chrono::seconds kMaxAgeWithoutIndex{10};
    static constexpr std::uint64_t kAhead = 128;
    static constexpr std::size_t kMaxPackets = PairingTable::kMaxWaiting + kAhead;
    static constexpr std::uint32_t kSmallPacket = 16U << 10;

    enum class Fate : std::uint8_t {
        kKept,       // and there may be more pieces to come
        kWhole,      // the packet is whole now
        kRepeated,   // it is here already
        kTooLate,    // its packet has left or is given up
        kTooFar,     // no index speaks of such a number yet
        kMalformed,  // it breaks the format, or contradicts an earlier piece of its packet
    };
    Fate add(const wire::DatagramHeader& header, UntrustedBytes piece, Time now);

    struct WholePacket {
        std::uint64_t number;
        wire::Bytes bytes;
    };
    // The next one that is real and whole, once all real ones before it have left or are late.
    std::optional<WholePacket> take(const PairingTable& pairs, Time now);
    // Forgets what no index speaks of, or did not in time.
    void clean(const PairingTable& pairs, Time now);
    // Forgets the packet that takes most memory, of several the one with the highest number. Small packets are safe as
    // long as those of the whole window fit into the memory that it may take: something else is larger.
    void drop_largest();

    // Memory that is held for what waits.
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] std::size_t packets() const { return waiting_.size(); }
    // Packets that were forgotten: they are not real, or were in the way.
    [[nodiscard]] std::uint64_t dropped_packets() const { return dropped_packets_; }
    // What one packet costs beside its bytes.
    static constexpr std::size_t kOverhead = 192;

  private:
    // Pieces lie one behind another as they came, so memory grows with what came and not with what was announced.
    struct Partial {
        std::uint32_t packet_size = 0;
        std::size_t missing = 0;           // pieces
        std::vector<std::uint16_t> slots;  // of each piece: 1 + its position among those that came; 0: missing
        wire::Bytes bytes;
        Time since{};

        [[nodiscard]] std::size_t held() const;
        void put(std::size_t piece_number, UntrustedBytes piece);
        wire::Bytes assemble();
    };
    using Waiting = std::map<std::uint64_t, Partial>;

    void follow(const PairingTable& pairs);
    Waiting::iterator begin_packet(const wire::DatagramHeader& header, Time now);
    Waiting::iterator drop(Waiting::iterator at);

    Waiting waiting_;
    std::size_t bytes_ = 0;
    std::uint64_t begin_ = 0;             // numbers below have left or are given up
    std::optional<std::uint64_t> end_{};  // from here on is too far; unknown before the first index
    std::uint64_t dropped_packets_ = 0;
};

}  // namespace leat::relay
