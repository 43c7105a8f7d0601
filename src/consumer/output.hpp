// Where a session's packets go: a trace directory, later a relay.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/byte_cursor.hpp"
#include "base/result.hpp"
#include "ctf/packet_header.hpp"

namespace leat::consumer {

// What the consumer cut from one ring.
struct Packet {
    ctf::PacketHeader header;
    UntrustedBytes records;  // valid during the call
};

// Order of the calls: metadata, then packets that need it. A call that fails has written nothing that a reader would
// take for whole, and may be tried again.
class Output {
  public:
    Output() = default;
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;
    virtual ~Output() = default;

    // A whole unit: declarations that can be parsed with those before.
    virtual Result<void> write_metadata(std::string_view unit) = 0;
    virtual Result<void> write_packet(const Packet& packet) = 0;
};

}  // namespace leat::consumer
