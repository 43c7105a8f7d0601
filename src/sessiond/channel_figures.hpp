#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace leat::sessiond {

// Events of a channel.
struct ChannelFigures {
    std::uint64_t events = 0;
    std::uint64_t bytes = 0;                           // of their packets
    std::map<std::string, std::uint64_t> discarded{};  // by reason

    void add(const ChannelFigures& other) {
        events += other.events;
        bytes += other.bytes;
        for (const auto& [reason, count] : other.discarded) discarded[reason] += count;
    }
};

}  // namespace leat::sessiond
