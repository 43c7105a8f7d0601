#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "relay/pairing_table.hpp"
#include "wire/relay_messages.hpp"

namespace leat::relay {

// Packets of one stream that come as datagrams: pieces in any order, some twice, some never. They leave whole and in
// the order of their numbers; one that stays incomplete is given up when it is too old, or in the way of too many.
class DatagramWindow {
  public:
    static constexpr std::chrono::milliseconds kMaxAge{500};
    // Of what waits; packets count too, because small ones cost more than their bytes.
    static constexpr std::size_t kMaxBytes = 4U << 20;
    static constexpr std::size_t kMaxPackets = 4096;

    // Pieces that belong nowhere any more are dropped without a word; those that break the format are refused.
    Result<void> add(const wire::DatagramHeader& header, UntrustedBytes piece, Time now);

    struct Packet {
        std::uint64_t number;
        wire::Bytes bytes;
    };
    // The next one that is whole, once all before it have left or are given up.
    std::optional<Packet> take(Time now);
    // Memory that is held for what waits.
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

  private:
    struct Partial {
        wire::Bytes bytes;
        std::vector<bool> pieces;  // that are here
        std::size_t missing;       // pieces
        Time since;
    };

    std::map<std::uint64_t, Partial> waiting_;
    std::size_t bytes_ = 0;
    std::optional<std::uint64_t> next_{};  // number that is to leave next
};

}  // namespace leat::relay
