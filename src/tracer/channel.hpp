// The channels that this process writes to: their rings and clocks, mapped, and what their records look like.
#pragma once

#include <stdint.h>

#include "ring/rseq_writer.hpp"
#include "tracer/touch_ahead.hpp"
#include "wire/app/app_protocol.hpp"
#include "wire/app/control_format.hpp"

namespace leat::tracer {

// Does not change once others can see it, but for what a test sets, and for `mapped` and `touched`.
//
// The rings that this process may write to are mapped once as they lie in the file: all of them, or without rseq those
// of threads. A ring is mapped as writers need it (ring_format.hpp) when a thread of this process first has an event on
// its CPU, or claims it. Most never are, and each mapping makes a fork slower.
struct Channel {
    ring::RingMap map;
    ring::RingSetHeader* set;
    char* file;  // of the header page of ring `first_in_file`, in the file
    uint32_t first_in_file;
    ring::RingHeader** mapped;  // RingMap::rings
    TouchedAhead* touched;      // for each ring of a CPU
    uint32_t number;            // as in wire::Action
    uint32_t contexts;          // wire::kContext... bits
    uint32_t context_size;      // bytes of them in a record, at most
    uint32_t app_context_count;
    uint32_t app_contexts[wire::kMaxAppContexts];  // slots, in the order of records
    uint32_t rseq_area_size;                       // what threads register; 0 without rseq
    uint32_t blocking_timeout_us;                  // wire::kNoBlocking, kBlocksForever, or in between
    bool has_rseq;
    bool sees_vforks;   // see thread_identity.hpp
    bool is_populated;  // its rings are, when they are mapped
};

// A ring's header page as it lies in the file: there whether the ring is mapped or not.
inline ring::RingHeader& header_in_file(const Channel& channel, uint32_t index) {
    const uint64_t place = (index - channel.first_in_file) * ring::file_stride(channel.map.size());
    return *reinterpret_cast<ring::RingHeader*>(channel.file + place);  // NOLINT(*-reinterpret-cast)
}

// The header page of the first ring, which counts what has no ring. It is mapped together with the set's page.
inline ring::RingHeader& first_header(const Channel& channel) {
    char* const set = reinterpret_cast<char*>(channel.set);              // NOLINT(*-reinterpret-cast)
    return *reinterpret_cast<ring::RingHeader*>(set + ring::kPageSize);  // NOLINT(*-reinterpret-cast)
}

// Whether it was displaced, or given back: what lies where its rings were, nobody reads.
inline bool is_retired(const Channel& channel) {
    return __atomic_load_n(&channel.set->magic, __ATOMIC_RELAXED) != ring::kRingSetMagic;
}

// Where a ring is mapped; maps it, if nobody has yet. nullptr: there is no memory, or no room on the disk for it. Any
// thread; async-signal-safe; changes errno.
ring::RingHeader* map_ring(const Channel& channel, uint32_t index);

// A process keeps the rings of so many channels. One more takes the place of the oldest one, which is no longer written
// to.
inline constexpr uint32_t kMaxChannels = 64;

// The channel of this number; nullptr: it is not attached. Any thread; async-signal-safe.
const Channel* find_channel(uint32_t number);

// Of the thread-owned rings, the first ones are for children of vfork(): the only ones that a process with rseq maps.
// Those children hold one for the time of one record.
inline constexpr uint32_t kGuestRings = 8;

// The channel at this place, of kMaxChannels; nullptr: none was ever there. Any thread; async-signal-safe.
const Channel* channel_at(uint32_t place);

// More channels are in use than a process can keep: one was displaced soon after it was attached. For a while, nobody
// should attach channels because of events, or each event would. Any thread; async-signal-safe.
bool is_crowded();

// What cannot be done in a signal handler, or found out later. Under the RegistrationLock.
void prepare_attaching();

// Maps the rings and the clock and takes over what the message says, unless that channel is attached already. `names`:
// if it has contexts of the application. Descriptors stay the caller's. nullptr: something about them is not right, it
// asks for contexts that we do not know, or there is no memory; the process then goes on without the channel. Under the
// AttachLock; async-signal-safe after prepare_attaching(); changes errno.
Channel* attach_channel(const wire::ChannelMessage& message, int ring_set_fd, int clock_fd,
                        const wire::AppContextNames* names = nullptr);

// Gives the memory of its rings back. For who knows that nobody writes there any more: all that name it are switched
// off, for good. Under the AttachLock; changes errno.
void detach_channel(uint32_t number);
// All of a lane that are attached.
void detach_channels_of(wire::Lane lane);

}  // namespace leat::tracer
