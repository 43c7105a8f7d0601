// The channels that this process writes to: their rings and clocks, mapped, and what their records look like.
#pragma once

#include <stdint.h>

#include "ring/rseq_writer.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::tracer {

// Rings that belong to threads: mapped once as they lie in the file, where their owners show, and as writers need them
// (ring_format.hpp) only when this process claims one. Most are never claimed, and each mapping makes a fork slower.
struct ThreadRings {
    char* file;          // of the first one's header page
    uint8_t* is_mapped;  // for each: at RingMap::ring(), in this process

    [[nodiscard]] ring::RingHeader* header(const ring::RingMap& map, uint32_t index) const {
        return reinterpret_cast<ring::RingHeader*>(file + index * ring::file_stride(map.size()));  // NOLINT
    }
};

// Does not change once others can see it, but for what a test sets.
struct Channel {
    ring::RingMap map;
    ring::RingSetHeader* set;
    ThreadRings thread_rings;
    uint32_t number;          // as in wire::Action
    uint32_t contexts;        // wire::kContext... bits
    uint32_t context_size;    // bytes of them in a record
    uint32_t rseq_area_size;  // what threads register; 0 without rseq
    bool has_rseq;
    bool sees_vforks;  // see thread_identity.hpp
};

// Maps a ring that this process has claimed, unless it was mapped before; `index` counts the rings of threads. nullptr:
// there is no memory. Async-signal-safe; changes errno.
ring::RingHeader* map_thread_ring(const Channel& channel, uint32_t index);

// A process keeps the rings of so many channels. One more takes the place of the oldest one, which is no longer written
// to.
inline constexpr uint32_t kMaxChannels = 64;

// The channel of this number; nullptr: it is not attached. Any thread; async-signal-safe.
const Channel* find_channel(uint32_t number);

// Of the thread-owned rings, the first ones are for children of vfork(): the only ones that a process with rseq maps.
// Those children hold one for the time of one record.
inline constexpr uint32_t kGuestRings = 8;

// Maps the rings and the clock and takes over what the message says, unless that channel is attached already.
// Descriptors stay the caller's. nullptr: something about them is not right, or there is no memory; the process then
// goes on without the channel. Under the RegistrationLock; not async-signal-safe.
Channel* attach_channel(const wire::ChannelMessage& message, int ring_set_fd, int clock_fd);

}  // namespace leat::tracer
