// Writes one record, whatever is in its way.
#pragma once

#include <stdint.h>

#include "ring/ring_format.hpp"
#include "tracer/channel.hpp"

namespace leat::tracer {

// One of the records that an event becomes.
struct Record {
    const Channel& channel;
    uint32_t id;
    const uint32_t* word;
    uint32_t expected;
    const void* payload;
    uint64_t payload_size;
    const void* ip;

    [[nodiscard]] uint64_t size() const { return channel.context_size + payload_size; }
};

// Writes the record, or counts it. False: somebody has switched the tracepoint meanwhile, and it is neither written nor
// counted. Any thread; async-signal-safe; preserves errno.
bool write_record(const Record& record);

// Counts an event that the channel does not get. Any thread; async-signal-safe.
void count_in(const Channel& channel, ring::DiscardReason reason);

// A CPU's ring that has no room for a record, and whose consumer knows: counts the event, unless it may wait for room.
// False: write it with care.
// Quick, as a program that is faster than its consumer comes here with every event. Any thread; async-signal-safe.
bool count_if_full(const Channel& channel, uint64_t record_size);

// Wakes the consumer of the channel. Any thread; async-signal-safe.
void ring_doorbell(const Channel& channel);

}  // namespace leat::tracer
