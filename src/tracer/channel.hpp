// The channel that this process writes to: its rings and clock, mapped, and what its records look like.
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

struct Channel {
    ring::RingMap map;
    ring::RingSetHeader* set;
    ThreadRings thread_rings;
    char* staging;          // process_page's kStagingBuffers buffers, for payloads that are too large for a stack
    uint64_t staging_size;  // bytes of each, headroom and slack included
    uint64_t session_id;    // 0: not attached
    uint32_t contexts;      // wire::kContext... bits
    ring::HeaderKind header_kind;
    uint32_t rseq_area_size;  // what threads register; 0 without rseq
    bool has_rseq;
    bool sees_vforks;  // see thread_identity.hpp
};

// Maps a ring that this process has claimed, unless it was mapped before; `index` counts the rings of threads. nullptr:
// there is no memory. Async-signal-safe; changes errno.
ring::RingHeader* map_thread_ring(const Channel& channel, uint32_t index);

// One for each process: not attached, then attached for good.
extern Channel process_channel;

// What a tracepoint needs to write its records.
struct Binding {
    ring::EventHeader header;
    const Channel* channel;
};

// Of the thread-owned rings, the first ones are for children of vfork(): the only ones that a process with rseq maps.
// Those children hold one for the time of one record.
inline constexpr uint32_t kGuestRings = 8;

// Maps the rings and the clock and takes over what the message says. Descriptors stay the caller's. False: something
// about them is not right, or there is no memory; the process then goes on untraced.
bool attach_channel(const wire::RegistrationDoneMessage& message, int ring_set_fd, int clock_fd);

}  // namespace leat::tracer
