// The channel that this process writes to: its rings and clock, mapped, and what its records look like.
#pragma once

#include <stdint.h>

#include "ring/rseq_writer.hpp"
#include "wire/app_protocol.hpp"

namespace leat::tracer {

struct Channel {
    ring::RingMap map;
    ring::RingSetHeader* set;
    char* staging;          // process_page's kStagingBuffers buffers, for payloads that are too large for a stack
    uint64_t staging_size;  // bytes of each, headroom and slack included
    uint64_t session_id;    // 0: not attached
    uint32_t contexts;      // wire::kContext... bits
    ring::HeaderKind header_kind;
    uint32_t rseq_area_size;  // what threads register; 0 without rseq
    bool has_rseq;
    bool sees_vforks;  // see thread_identity.hpp
};

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
