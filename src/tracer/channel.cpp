#include "tracer/channel.hpp"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tracer/process_page.hpp"
#include "tracer/ring_owner.hpp"
#include "tracer/staging.hpp"
#include "tracer/thread_identity.hpp"

// glibc >= 2.35 registers every thread ([linux-rseq]) and says so here; 0 bytes if it did not.
extern "C" {
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace leat::tracer {
namespace {

// Touching a mapping beyond the end of its file is SIGBUS, in somebody else's program. A file that can never change its
// size, and is large enough now, cannot do that to us, whoever else has it.
constexpr int kAgainstSigbus = F_SEAL_SHRINK | F_SEAL_GROW;

bool has_rseq() { return &__rseq_size != nullptr && &__rseq_offset != nullptr && __rseq_size != 0; }

bool is_sealed(int fd, uint64_t expected_size) {
    struct stat status {};
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & kAgainstSigbus) == kAgainstSigbus && fstat(fd, &status) == 0 &&
           static_cast<uint64_t>(status.st_size) >= expected_size;
}

const ring::ClockPage* map_clock(int fd) {
    if (!is_sealed(fd, ring::kPageSize)) return nullptr;
    void* page = mmap(nullptr, ring::kPageSize, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) return nullptr;
    const auto* clock = static_cast<const ring::ClockPage*>(page);
    if (clock->magic == ring::kClockPageMagic && clock->version == ring::kClockPageVersion) return clock;
    munmap(page, ring::kPageSize);
    return nullptr;
}

// The geometry is the daemon's answer: what the page says, others can write.
ring::RingSetHeader* map_set_header(int fd, const wire::ChannelMessage& message) {
    if (!ring::is_valid_ring_size(message.ring_size) || message.cpu_ring_count > ring::kMaxRings ||
        message.thread_ring_count > ring::kMaxRings ||
        !is_sealed(fd, ring::file_size(message.ring_size, message.cpu_ring_count + message.thread_ring_count)))
        return nullptr;
    void* page = mmap(nullptr, ring::kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) return nullptr;
    auto* set = static_cast<ring::RingSetHeader*>(page);
    if (set->magic == ring::kRingSetMagic && set->version == ring::kRingSetVersion) return set;
    munmap(page, ring::kPageSize);
    return nullptr;
}

// Header page and records, then the records once more.
bool map_ring(int fd, const ring::RingMap& map, uint32_t index) {
    const uint64_t size = map.size();
    const auto offset = static_cast<off_t>(ring::file_offset(size, index));
    char* at = map.base + index * map.stride;
    const int flags = MAP_SHARED | MAP_FIXED;
    return mmap(at, ring::kPageSize + size, PROT_READ | PROT_WRITE, flags, fd, offset) != MAP_FAILED &&
           mmap(at + ring::kPageSize + size, size, PROT_READ | PROT_WRITE, flags, fd,
                offset + static_cast<off_t>(ring::kPageSize)) != MAP_FAILED;
}

// Address space for all; and ring 0, which counts what finds no ring. With rseq, the other rings of CPUs, too.
//
//     base        + stride      ...   + cpu_ring_count * stride
//      | ring 0    | ring 1    |       | ring of a thread      | ...
//      | mapped    | with rseq |       | when it is claimed    |
//
// Reserved in one piece: a ring's place follows from its number, for the sequence as for map_thread_ring().
bool map_cpu_rings(int fd, ring::RingMap& map, bool has_rseq) {
    const uint64_t total = (map.cpu_ring_count + map.thread_ring_count) * map.stride;
    void* base = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return false;
    map.base = static_cast<char*>(base);
    bool is_mapped = map_ring(fd, map, 0);
    for (uint32_t index = 1; is_mapped && has_rseq && index < map.cpu_ring_count; ++index)
        is_mapped = map_ring(fd, map, index);
    if (!is_mapped) munmap(base, total);
    return is_mapped;
}

// Without memory for them there are none.
ThreadRings map_thread_rings(int fd, ring::RingMap& map) {
    const uint32_t count = map.thread_ring_count;
    const auto offset = static_cast<off_t>(ring::file_offset(map.size(), map.cpu_ring_count));
    const uint64_t size = count * ring::file_stride(map.size());
    map.thread_ring_count = 0;
    if (count == 0) return {};
    void* file = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset);
    void* flags = mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (file == MAP_FAILED || flags == MAP_FAILED) return {};
    map.thread_ring_count = count;
    return {static_cast<char*>(file), static_cast<uint8_t*>(flags)};
}

// The same pages once more at another place: what mremap() does with an old size of 0. It needs no descriptor.
bool map_again(void* pages, uint64_t size, void* at) {
    return mremap(pages, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED;
}

// A channel lies at the first place from home_of() on that was free, or whose channel it has displaced. No place gets
// free again, so whoever looks for it stops at a free one.
const Channel* channels[kMaxChannels];
// How many were attached before the one in each place: the oldest is displaced. Under the RegistrationLock.
uint64_t attached_before[kMaxChannels];
uint64_t attached_channels = 0;

// The lowest two bits are the lane: so the channels of one daemon, which counts them up, have homes of their own.
uint32_t home_of(uint32_t number) { return (number >> 2) % kMaxChannels; }

uint32_t place_for(uint32_t number) {
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < kMaxChannels; ++i) {
        const uint32_t place = (home_of(number) + i) % kMaxChannels;
        if (channels[place] == nullptr) return place;
        if (attached_before[i] < attached_before[oldest]) oldest = i;
    }
    return oldest;
}

// What a channel is made of stays where it is, as threads may be on their way to it. But its memory goes back, and what
// they find in its place is a ring whose limit is 0: without room, they look for the channel again, and count the
// event.
void retire(const Channel& channel) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    const ring::RingMap& map = channel.map;
    const uint64_t rings = (map.cpu_ring_count + map.thread_ring_count) * map.stride;
    (void)mmap(channel.set, ring::kPageSize, PROT_READ | PROT_WRITE, flags, -1, 0);
    (void)mmap(map.base, rings, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (map.thread_ring_count != 0)
        (void)mmap(channel.thread_rings.file, map.thread_ring_count * ring::file_stride(map.size()),
                   PROT_READ | PROT_WRITE, flags, -1, 0);
}

void publish(const Channel& channel) {
    const uint32_t place = place_for(channel.number);
    const Channel* const old = channels[place];
    attached_before[place] = attached_channels++;
    // M: pairs with N in find_channel().
    __atomic_store_n(&channels[place], &channel, __ATOMIC_RELEASE);
    if (old == nullptr) return;
    // Who has found the old channel already may give its new ring a limit: nobody goes straight there after that.
    begin_new_generation();
    retire(*old);
}

}  // namespace

const Channel* find_channel(uint32_t number) {
    for (uint32_t i = 0; i < kMaxChannels; ++i) {
        // N: the channel is whole. Pairs with M in publish().
        const Channel* channel = __atomic_load_n(&channels[(home_of(number) + i) % kMaxChannels], __ATOMIC_ACQUIRE);
        if (channel == nullptr || channel->number == number) return channel;
    }
    return nullptr;
}

// Only the owner of a ring comes here with it, so nobody writes there while it is mapped. It stays mapped for the next
// thread of this process that claims it.
ring::RingHeader* map_thread_ring(const Channel& channel, uint32_t index) {
    const ring::RingMap& map = channel.map;
    ring::RingHeader* const ring = map.ring(map.cpu_ring_count + index);
    uint8_t& is_mapped = channel.thread_rings.is_mapped[index];
    // V: whoever mapped the ring was done with it. Pairs with U below, in an earlier owner's thread.
    if (__atomic_load_n(&is_mapped, __ATOMIC_ACQUIRE) != 0) return ring;
    char* const in_file = reinterpret_cast<char*>(channel.thread_rings.header(map, index));  // NOLINT
    char* const at = reinterpret_cast<char*>(ring);                                          // NOLINT
    if (!map_again(in_file, ring::kPageSize + map.size(), at) ||
        !map_again(in_file + ring::kPageSize, map.size(), at + ring::kPageSize + map.size()))
        return nullptr;
    // U: both mappings are there before anybody is told. Pairs with V.
    __atomic_store_n(&is_mapped, 1, __ATOMIC_RELEASE);
    return ring;
}

namespace {

// Where mremap() does not do that (valgrind), all are mapped while there is a descriptor.
void map_all_thread_rings(int fd, Channel& channel) {
    uint32_t mapped = 0;
    while (mapped < channel.map.thread_ring_count && map_ring(fd, channel.map, channel.map.cpu_ring_count + mapped))
        channel.thread_rings.is_mapped[mapped++] = 1;
    channel.map.thread_ring_count = mapped;
}

}  // namespace

Channel* attach_channel(const wire::ChannelMessage& message, int ring_set_fd, int clock_fd) {
    if (const Channel* known = find_channel(message.number); known != nullptr) return const_cast<Channel*>(known);
    ring::RingSetHeader* set = map_set_header(ring_set_fd, message);
    const ring::ClockPage* clock = map_clock(clock_fd);
    if (set == nullptr || clock == nullptr || !make_staging()) return nullptr;
    void* page = mmap(nullptr, sizeof(Channel), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return nullptr;

    Channel& attached = *static_cast<Channel*>(page);
    attached.rseq_area_size = has_rseq() ? registered_area_size(__rseq_offset) : 0;
    attached.has_rseq = attached.rseq_area_size != 0;
    attached.map.stride = ring::map_stride(message.ring_size);
    attached.map.mask = message.ring_size - 1;
    attached.map.clock = clock;
    attached.map.rseq_offset = attached.has_rseq ? __rseq_offset : 0;
    attached.map.cpu_ring_count = message.cpu_ring_count;
    const uint32_t guest_rings = message.thread_ring_count < kGuestRings ? message.thread_ring_count : kGuestRings;
    attached.map.thread_ring_count = attached.has_rseq ? guest_rings : message.thread_ring_count;
    attached.map.form = ring::header_form(message.header_kind);
    attached.sees_vforks = sees_vforks();
    attached.set = set;
    attached.number = message.number;
    attached.contexts = message.contexts & wire::kAllContexts;
    attached.context_size = wire::context_size(attached.contexts);
    if (!map_cpu_rings(ring_set_fd, attached.map, attached.has_rseq)) return nullptr;
    attached.thread_rings = map_thread_rings(ring_set_fd, attached.map);
    if (attached.map.thread_ring_count != 0 && map_thread_ring(attached, 0) == nullptr)
        map_all_thread_rings(ring_set_fd, attached);

    prepare_claims();
    if (!attached.has_rseq) release_rings_of_ending_threads();
    publish(attached);
    return &attached;
}

}  // namespace leat::tracer
