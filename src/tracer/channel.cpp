#include "tracer/channel.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/clock.hpp"
#include "tracer/app_contexts.hpp"
#include "tracer/process_page.hpp"
#include "tracer/ring_owner.hpp"
#include "tracer/staging.hpp"
#include "tracer/thread_identity.hpp"
#include "tracer/trust.hpp"
#include "tracer/zero_memory.hpp"
#include "wire/app/control_format.hpp"

// glibc >= 2.35 registers every thread ([linux-rseq]) and says so here; 0 bytes if it did not.
extern "C" {
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace leat::tracer {
namespace {

// Since Linux 5.14; libc may be older.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// Touching a mapping beyond the end of its file is SIGBUS, in somebody else's program. A file that can never change its
// size, and is large enough now, cannot do that to us, whoever else has it.
constexpr int kAgainstSigbus = F_SEAL_SHRINK | F_SEAL_GROW;

bool has_rseq() {
    return ring::kHasSequence && &__rseq_size != nullptr && &__rseq_offset != nullptr && __rseq_size != 0;
}

bool is_sealed(int fd, uint64_t expected_size) {
    struct stat status {};
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & kAgainstSigbus) == kAgainstSigbus && fstat(fd, &status) == 0 &&
           static_cast<uint64_t>(status.st_size) >= expected_size;
}

// Rings that outlive everything are in a file that cannot be sealed. Its owner is one who can do to us what they like.
bool is_file_of_our_own(int fd, uint64_t expected_size) {
    struct stat status {};
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && is_trusted(status.st_uid) &&
           static_cast<uint64_t>(status.st_size) >= expected_size;
}

// Brings all pages into being now: where the disk is full, or memory is limited and all of it is given out, this fails,
// and a store later would be SIGBUS.
bool populate(void* memory, uint64_t size) { return madvise(memory, size, MADV_POPULATE_WRITE) == 0; }

ring::ClockPage* map_clock(int fd) {
    if (!is_sealed(fd, ring::kPageSize)) return nullptr;
    void* page = mmap(nullptr, ring::kPageSize, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) return nullptr;
    auto* clock = static_cast<ring::ClockPage*>(page);
    if (clock->magic == ring::kClockPageMagic && clock->version == ring::kClockPageVersion) return clock;
    munmap(page, ring::kPageSize);
    return nullptr;
}

// The set's page and the header page of the first ring.
constexpr uint64_t kSetSize = 2 * ring::kPageSize;

// The geometry is the daemon's answer: what the page says, others can write.
ring::RingSetHeader* map_set_header(int fd, const wire::ChannelMessage& message, bool& is_file) {
    if (!ring::is_valid_ring_size(message.ring_size) || message.cpu_ring_count > ring::kMaxRings ||
        message.cpu_ring_count == 0 || message.thread_ring_count > ring::kMaxRings)
        return nullptr;
    const uint64_t size = ring::file_size(message.ring_size, message.cpu_ring_count + message.thread_ring_count);
    is_file = !is_sealed(fd, size);
    if (is_file && !is_file_of_our_own(fd, size)) return nullptr;
    void* page = mmap(nullptr, kSetSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) return nullptr;
    auto* set = static_cast<ring::RingSetHeader*>(page);
    const bool is_there = !is_file || populate(page, kSetSize) || errno == EINVAL;
    if (is_there && set->magic == ring::kRingSetMagic && set->version == ring::kRingSetVersion) return set;
    munmap(page, kSetSize);
    return nullptr;
}

// Memory that is given back with this object, unless somebody keeps it.
class Mapping {
  public:
    Mapping(void* memory, uint64_t size) : memory_(memory), size_(size) {}
    ~Mapping() {
        if (memory_ != nullptr) munmap(memory_, size_);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    [[nodiscard]] void* get() const { return memory_; }
    void keep() { memory_ = nullptr; }

  private:
    void* memory_;
    uint64_t size_;
};

// nullptr: there is none.
void* map_memory(uint64_t size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

// As many of these thread-owned rings as a channel of this process may have. 32-bit programs have 3 or 4 GiB of address
// space for everything, so there the rings of a channel take 256 MiB at most: 84 of 1 MiB. There is at least one.
uint32_t thread_rings_that_fit(uint64_t ring_size, uint32_t thread_ring_count) {
    constexpr uint64_t kSpace = sizeof(void*) == 8 ? UINT64_MAX : 256U << 20;
    const uint64_t that_fit = kSpace / (ring::map_stride(ring_size) + ring::file_stride(ring_size));
    if (that_fit >= thread_ring_count) return thread_ring_count;
    return that_fit == 0 ? 1 : static_cast<uint32_t>(that_fit);
}

// Bytes of the rings that this process may write to, as they lie in the file.
uint64_t size_in_file(const Channel& channel) {
    const ring::RingMap& map = channel.map;
    return (map.cpu_ring_count + map.thread_ring_count - channel.first_in_file) * ring::file_stride(map.size());
}

// Those rings. In a dump of the process's memory they would be more of it than all else.
char* map_file(int fd, const Channel& channel) {
    const uint64_t size = size_in_file(channel);
    const auto offset = static_cast<off_t>(ring::file_offset(channel.map.size(), channel.first_in_file));
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset);
    if (at == MAP_FAILED) return nullptr;
    (void)madvise(at, size, MADV_DONTDUMP);
    return static_cast<char*>(at);
}

// Maps a part of the file, of which `in_file` is a mapping, once more at another place: what mremap() does with an old
// size of 0. It needs no descriptor.
struct AgainByRemap {
    bool operator()(char* in_file, uint64_t size, char* at) const {
        return mremap(in_file, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED;
    }
};

// The same where mremap() does not do that (valgrind).
struct AgainByFile {
    int fd;
    const char* file;
    off_t offset;  // of `file`

    bool operator()(char* in_file, uint64_t size, char* at) const {
        const off_t from = offset + (in_file - file);
        return mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, from) != MAP_FAILED;
    }
};

// Where the kernel cannot populate a ring, only those of CPUs can be used, for which the daemon has made room.
bool is_all_there(const Channel& channel, uint32_t index, void* ring) {
    if (!channel.is_populated || populate(ring, ring::kPageSize + channel.map.size())) return true;
    return errno == EINVAL && index < channel.map.cpu_ring_count;
}

// Header page and records, then the records once more, at a place of their own. nullptr: there is no memory.
template <class MapAgain>
ring::RingHeader* map_as_needed(const Channel& channel, uint32_t index, const MapAgain& map_again) {
    const uint64_t size = channel.map.size();
    char* const in_file = reinterpret_cast<char*>(&header_in_file(channel, index));  // NOLINT(*-reinterpret-cast)
    const uint64_t total = ring::map_stride(size);
    void* const place = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return nullptr;
    char* const at = static_cast<char*>(place);
    if (map_again(in_file, ring::kPageSize + size, at) &&
        map_again(in_file + ring::kPageSize, size, at + ring::kPageSize + size))
        return static_cast<ring::RingHeader*>(place);
    munmap(place, total);
    return nullptr;
}

// Several threads may come here for the ring of a CPU: one of them is first.
ring::RingHeader* publish_ring(const Channel& channel, uint32_t index, ring::RingHeader* mapped) {
    ring::RingHeader* known = nullptr;
    // U: the ring is mapped before anybody is told where. Pairs with V in map_ring().
    if (mapped == nullptr ||
        __atomic_compare_exchange_n(&channel.mapped[index], &known, mapped, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
        return mapped;
    munmap(mapped, ring::map_stride(channel.map.size()));
    return known;
}

// Whether a ring can be mapped without a descriptor.
bool can_remap(const Channel& channel, uint32_t index) {
    ring::RingHeader* const tried = map_as_needed(channel, index, AgainByRemap{});
    if (tried != nullptr) munmap(tried, ring::map_stride(channel.map.size()));
    return tried != nullptr;
}

// Whether rings can be mapped when they are needed; else all that may be are mapped now, while there is a descriptor.
// But there is no room for all that are to be populated.
bool prepare_rings(int fd, Channel& channel) {
    const ring::RingMap& map = channel.map;
    const uint32_t count = map.cpu_ring_count + map.thread_ring_count;
    const uint32_t first = channel.first_in_file;
    if (channel.is_populated) return first == count || can_remap(channel, first);
    if (first == count || map_ring(channel, first) != nullptr) return true;
    const AgainByFile by_file{fd, channel.file, static_cast<off_t>(ring::file_offset(map.size(), first))};
    for (uint32_t index = first; index < count; ++index)
        if (publish_ring(channel, index, map_as_needed(channel, index, by_file)) == nullptr) return false;
    return true;
}

// A channel lies at the first place from home_of() on that was free, or whose channel it has displaced. No place gets
// free again, so whoever looks for it stops at a free one.
const Channel* channels[kMaxChannels];
// When the one in each place was attached (ns): the oldest is displaced. Under the AttachLock.
uint64_t attached_at[kMaxChannels];
constexpr uint64_t kSoon = 1'000'000'000;  // ns
uint64_t crowded_until = 0;                // ns

// The lowest two bits are the lane: so the channels of one daemon, which counts them up, have homes of their own.
uint32_t home_of(uint32_t number) { return (number >> 2) % kMaxChannels; }

bool is_attached(uint32_t place) { return attached_at[place] != 0; }

// A capture, which gives its channels back at its end, cannot be asked for them again.
bool is_kept(uint32_t place) {
    return is_attached(place) && wire::lane_of(channels[place]->number) == wire::Lane::kRecorder;
}

bool goes_before(uint32_t place, uint32_t other) {
    return is_kept(place) != is_kept(other) ? is_kept(other) : attached_at[place] < attached_at[other];
}

uint32_t place_for(uint32_t number) {
    uint32_t oldest = home_of(number);
    for (uint32_t i = 0; i < kMaxChannels; ++i) {
        const uint32_t place = (home_of(number) + i) % kMaxChannels;
        if (channels[place] == nullptr) return place;
        if (goes_before(place, oldest)) oldest = place;
    }
    return oldest;
}

// What a channel is made of stays where it is, as threads may be on their way to it. But its memory goes back, and what
// they find in its place is a ring whose limit is 0: without room, they look for the channel again, and count the
// event. By the set's page they know. Then comes the file: after that, nobody maps a ring from there.
void retire(const Channel& channel) {
    const ring::RingMap& map = channel.map;
    const uint32_t count = map.cpu_ring_count + map.thread_ring_count;
    const ZeroMemory zeros;
    (void)zeros.replace(channel.set, kSetSize, true);
    (void)zeros.replace(channel.file, size_in_file(channel), true);
    for (uint32_t index = 0; index < count; ++index) {
        ring::RingHeader* const ring = __atomic_load_n(&channel.mapped[index], __ATOMIC_RELAXED);
        if (ring != nullptr) (void)zeros.replace(ring, ring::map_stride(map.size()), true);
    }
}

void detach(uint32_t place) {
    attached_at[place] = 0;  // the next one to be displaced
    begin_new_generation();
    retire(*channels[place]);
}

void publish(const Channel& channel) {
    const uint32_t place = place_for(channel.number);
    const Channel* const old = channels[place];
    const bool is_retired = !is_attached(place);
    const uint64_t now = ring::system_now();
    if (old != nullptr && now < attached_at[place] + kSoon)
        __atomic_store_n(&crowded_until, now + kSoon, __ATOMIC_RELAXED);
    attached_at[place] = now;
    // M: pairs with N in channel_at().
    __atomic_store_n(&channels[place], &channel, __ATOMIC_RELEASE);
    if (old == nullptr || is_retired) return;
    // Who has found the old channel already may give its new ring a limit: nobody goes straight there after that.
    begin_new_generation();
    retire(*old);
    // Who had found it before that, and looked at the generation after.
    begin_new_generation();
}

}  // namespace

void detach_channel(uint32_t number) {
    for (uint32_t place = 0; place < kMaxChannels; ++place)
        if (channels[place] != nullptr && channels[place]->number == number) detach(place);
}

void detach_channels_of(wire::Lane lane) {
    for (uint32_t place = 0; place < kMaxChannels; ++place)
        if (is_attached(place) && wire::lane_of(channels[place]->number) == lane) detach(place);
}

const Channel* channel_at(uint32_t place) {
    // N: the channel is whole. Pairs with M in publish().
    return __atomic_load_n(&channels[place], __ATOMIC_ACQUIRE);
}

const Channel* find_channel(uint32_t number) {
    for (uint32_t i = 0; i < kMaxChannels; ++i) {
        const Channel* channel = channel_at((home_of(number) + i) % kMaxChannels);
        if (channel == nullptr || channel->number == number) return channel;
    }
    return nullptr;
}

// A ring stays mapped for the next thread of this process that has an event there, or claims it.
ring::RingHeader* map_ring(const Channel& channel, uint32_t index) {
    // V: whoever mapped the ring was done with it. Pairs with U in publish_ring().
    ring::RingHeader* const known = __atomic_load_n(&channel.mapped[index], __ATOMIC_ACQUIRE);
    if (known != nullptr) return known;
    ring::RingHeader* const mapped = map_as_needed(channel, index, AgainByRemap{});
    if (mapped != nullptr && !is_all_there(channel, index, mapped)) {
        munmap(mapped, ring::map_stride(channel.map.size()));
        return nullptr;
    }
    return publish_ring(channel, index, mapped);
}

namespace {

// Records without one of them would not be what the daemon describes.
bool are_contexts_known(uint32_t contexts, const wire::AppContextNames* names) {
    if ((contexts & ~(wire::kAllContexts | wire::kContextApp)) != 0) return false;
    if ((contexts & wire::kContextApp) == 0) return names == nullptr;
    if (names == nullptr || names->count == 0 || names->count > wire::kMaxAppContexts) return false;
    for (uint32_t i = 0; i < names->count; ++i)
        if (!wire::is_app_context_name(names->names[i], strnlen(names->names[i], wire::kAppContextNameSize)))
            return false;
    return true;
}

}  // namespace

bool is_crowded() { return ring::system_now() < __atomic_load_n(&crowded_until, __ATOMIC_RELAXED); }

void prepare_attaching() {
    prepare_claims();
    if (!has_rseq()) release_rings_of_ending_threads();
}

Channel* attach_channel(const wire::ChannelMessage& message, int ring_set_fd, int clock_fd,
                        const wire::AppContextNames* names) {
    if (!are_contexts_known(message.contexts, names)) return nullptr;
    if (static_cast<uint32_t>(wire::lane_of(message.number)) >= wire::kLanes) return nullptr;
    if (const Channel* known = find_channel(message.number); known != nullptr) return const_cast<Channel*>(known);
    bool is_file = false;
    Mapping set(map_set_header(ring_set_fd, message, is_file), kSetSize);
    Mapping clock(map_clock(clock_fd), ring::kPageSize);
    Mapping page(map_memory(sizeof(Channel)), sizeof(Channel));
    if (set.get() == nullptr || clock.get() == nullptr || page.get() == nullptr || !make_staging()) return nullptr;

    Channel& attached = *static_cast<Channel*>(page.get());
    attached.rseq_area_size = has_rseq() ? registered_area_size(__rseq_offset) : 0;
    attached.has_rseq = attached.rseq_area_size != 0;
    attached.map.mask = message.ring_size - 1;
    attached.map.clock = static_cast<const ring::ClockPage*>(clock.get());
    // Also where nothing goes straight: the sequence may find this channel's writer where another one's was.
    attached.map.rseq_offset = has_rseq() ? __rseq_offset : 0;
    attached.map.cpu_ring_count = message.cpu_ring_count;
    const uint32_t guest_rings = message.thread_ring_count < kGuestRings ? message.thread_ring_count : kGuestRings;
    attached.map.thread_ring_count =
        attached.has_rseq ? guest_rings : thread_rings_that_fit(message.ring_size, message.thread_ring_count);
    attached.map.form = ring::header_form(static_cast<ring::HeaderKind>(message.header_kind));
    if (message.overwrites != 0) attached.map.overwrite();
    attached.sees_vforks = sees_vforks();
    attached.set = static_cast<ring::RingSetHeader*>(set.get());
    attached.is_populated = is_file || attached.set->is_promised != 0;
    attached.number = message.number;
    attached.contexts = message.contexts;
    attached.context_size = wire::context_size(attached.contexts);
    attached.app_context_count = names != nullptr ? names->count : 0;
    for (uint32_t i = 0; i < attached.app_context_count; ++i) attached.app_contexts[i] = slot_of(names->names[i]);
    attached.context_size += attached.app_context_count * wire::kMaxAppContextSize;
    attached.blocking_timeout_us = message.blocking_timeout_us;
    const uint32_t ring_count = attached.map.cpu_ring_count + attached.map.thread_ring_count;
    attached.first_in_file = attached.has_rseq ? 0 : attached.map.cpu_ring_count;
    Mapping file(map_file(ring_set_fd, attached), size_in_file(attached));
    const uint64_t tables_size =
        attached.map.cpu_ring_count * sizeof(TouchedAhead) + ring_count * sizeof(ring::RingHeader*);
    Mapping tables(map_memory(tables_size), tables_size);
    if (file.get() == nullptr || tables.get() == nullptr) return nullptr;
    attached.file = static_cast<char*>(file.get());
    attached.touched = static_cast<TouchedAhead*>(tables.get());
    void* const behind_touched = attached.touched + attached.map.cpu_ring_count;
    attached.mapped = static_cast<ring::RingHeader**>(behind_touched);
    attached.map.rings = attached.mapped;
    if (!prepare_rings(ring_set_fd, attached)) return nullptr;
    set.keep();
    clock.keep();
    page.keep();
    file.keep();
    tables.keep();

    if (!attached.has_rseq) release_rings_of_ending_threads();
    publish(attached);
    return &attached;
}

}  // namespace leat::tracer
