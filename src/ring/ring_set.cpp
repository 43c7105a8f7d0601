#include "ring/ring_set.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/sealed_memory.hpp"
#include "ring/ring_head.hpp"

namespace leat::ring {
namespace {

// Maps part of the file over reserved address space.
Result<void> map_over(std::byte* at, std::uint64_t size, int fd, std::uint64_t offset, int sharing) {
    void* mapped = ::mmap(at, size, PROT_READ | PROT_WRITE, sharing | MAP_FIXED, fd, static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) return cannot_map("cannot map a ring (see vm.max_map_count)");
    return {};
}

// A ring's records twice in a row (ring_format.hpp).
Result<void> map_ring(std::byte* at, int fd, std::uint64_t size, std::uint32_t index, int sharing) {
    const std::uint64_t offset = file_offset(size, index);
    LEAT_TRY(map_over(at, kPageSize + size, fd, offset, sharing));
    return map_over(at + kPageSize + size, size, fd, offset + kPageSize, sharing);
}

// What must be there from the start: the set's page, the rings of CPUs, and the pages where threads claim theirs.
std::vector<MemoryPlace::Part> parts_of(const RingSetGeometry& geometry) {
    std::vector<MemoryPlace::Part> parts{{0, file_offset(geometry.ring_size, geometry.cpu_rings)}};
    for (std::uint32_t ring = geometry.cpu_rings; ring < geometry.ring_count(); ++ring)
        parts.push_back({file_offset(geometry.ring_size, ring), kPageSize});
    return parts;
}

// Up to what the consumer writes.
std::optional<RingHeader> header_in_file(int fd, std::uint64_t offset) {
    std::array<std::byte, offsetof(RingHeader, tail)> bytes{};
    if (::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes.size()))
        return std::nullopt;
    RingHeader header{};
    std::memcpy(&header, bytes.data(), bytes.size());
    return header;
}

bool is_file(int fd, std::uint64_t size) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) == size;
}

// Not the number of CPUs there are: their numbers may have gaps, and more may be plugged in. The list ends with the
// highest number: "0-3,8-11".
std::uint32_t read_possible_cpus() {
    std::ifstream file("/sys/devices/system/cpu/possible");
    std::string list;
    if (std::getline(file, list)) {
        const std::size_t last = list.find_last_of("-,") + 1;  // npos + 1 is 0
        std::uint32_t highest = 0;
        const auto [end, error] = std::from_chars(list.data() + last, list.data() + list.size(), highest);
        if (error == std::errc{} && highest < kMaxRings / 2) return highest + 1;
    }
    const long count = ::sysconf(_SC_NPROCESSORS_CONF);
    return count < 1 ? 1 : static_cast<std::uint32_t>(count);
}

}  // namespace

std::uint32_t possible_cpus() {
    static const std::uint32_t count = read_possible_cpus();
    return count;
}

Result<RingSet> RingSet::create(const RingSetGeometry& geometry, std::uint64_t now, const MemoryPlace& place,
                                const std::string& channel) {
    LEAT_CHECK(geometry.is_valid());
    RingSet set;
    set.geometry_ = geometry;
    set.created_ = now;
    set.memory_ = place.is_directory() ? Memory::kFile : Memory::kSealed;
    set.is_promised_ = place.is_promised();
    set.fd_ = LEAT_TRY(place.make(place.is_directory() ? file_name(channel) : "rings",
                                  file_size(geometry.ring_size, geometry.ring_count()), parts_of(geometry)));
    LEAT_TRY(set.map());
    new (set.set_page_.data()) RingSetHeader{.magic = kRingSetMagic,
                                             .version = kRingSetVersion,
                                             .ring_size = geometry.ring_size,
                                             .cpu_ring_count = geometry.cpu_rings,
                                             .thread_ring_count = geometry.thread_rings,
                                             .doorbell = 0,
                                             .thread_rings_used = 0,
                                             .heartbeat = now,
                                             .snapshots_wanted = 0,
                                             .is_promised = place.is_promised() ? 1U : 0U};
    // Rings of threads stay untouched until somebody claims one: there are many, and few are ever used. Their first
    // writer takes the limit of 0 for a wish to be woken, and their time of 0 for a long gap. In overwrite mode, who
    // claims one first sets its limit; the note of its first block is all zeros.
    for (std::uint32_t index = 0; index < geometry.cpu_rings; ++index) {
        set.ring(index).last_timestamp = now;
        set.ring(index).limit = geometry.overwrites ? block_size(geometry.ring_size) : geometry.ring_size;
        set.ring(index).blocks[0].timestamp = now;
    }
    return set;
}

void RingSet::give_back(int fd) {
    if (is_memory_limited()) return;  // a writer who has it mapped might not get it back
    struct stat status {};
    if (::fstat(fd, &status) == 0) (void)::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, status.st_size);
}

bool RingSet::may_be_used(int fd) {
    RingSetHeader header{};
    if (::pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return true;
    if (header.magic != kRingSetMagic || header.version != kRingSetVersion || !is_valid_ring_size(header.ring_size) ||
        header.cpu_ring_count > kMaxRings || header.thread_rings_used != 0)
        return true;
    for (std::uint32_t index = 0; index < header.cpu_ring_count; ++index) {
        const auto ring = header_in_file(fd, file_offset(header.ring_size, index));
        if (!ring) return true;
        const bool has_discarded = std::ranges::any_of(ring->discarded, [](std::uint64_t count) { return count != 0; });
        if (ring->head != 0 || ring->next_head != 0 || has_discarded) return true;
    }
    return false;
}

Result<RingSet> RingSet::adopt(UniqueFd fd, const RingSetGeometry& geometry, std::uint64_t created, Memory memory) {
    if (!geometry.is_valid())
        return corrupt("{} and {} rings of {} bytes cannot be", geometry.cpu_rings, geometry.thread_rings,
                       geometry.ring_size);
    const std::uint64_t size = file_size(geometry.ring_size, geometry.ring_count());
    const bool is_right = memory == Memory::kSealed ? is_sealed(fd.get(), size) : is_file(fd.get(), size);
    if (!is_right)
        return corrupt("no ring memory of {} bytes{}", size,
                       memory == Memory::kSealed ? ", sealed" : ": it was cut off");
    RingSet set;
    set.memory_ = memory;
    set.is_promised_ = memory == Memory::kFile || (memory == Memory::kSealed && is_memory_limited());
    set.geometry_ = geometry;
    set.created_ = created;
    set.fd_ = std::move(fd);
    LEAT_TRY(set.map());
    if (memory == Memory::kSealed && set.is_promised_) LEAT_TRY(set.promise());
    return set;
}

// It was made when memory was not limited yet. Who has attached it by then does not know.
Result<void> RingSet::promise() const {
    for (const auto& [offset, size] : parts_of(geometry_)) LEAT_TRY(populate(offset, size));
    header().is_promised = 1;
    return {};
}

Result<void> RingSet::populate(std::uint64_t offset, std::uint64_t size) const {
    while (::fallocate(fd(), 0, static_cast<off_t>(offset), static_cast<off_t>(size)) != 0)
        if (errno != EINTR) return io_error("no room for a ring");
    return {};
}

Result<void> RingSet::map() {
    set_page_ = LEAT_TRY(memory_ == Memory::kCopy ? Mapping::copy_of_file(fd(), kPageSize)
                                                  : Mapping::of_file(fd(), kPageSize, true));
    // All rings at equal distances: one multiplication finds a ring.
    rings_ = LEAT_TRY(Mapping::of_address_space(geometry_.ring_count() * map_stride(geometry_.ring_size)));
    if (is_guarded()) {
        set_guard_ = LEAT_TRY(FaultGuard::of(set_page_.data(), kPageSize));
        ring_guard_ = LEAT_TRY(FaultGuard::of(rings_.data(), rings_.size(), map_stride(geometry_.ring_size)));
    }
    is_mapped_ = std::make_unique<std::atomic<bool>[]>(geometry_.ring_count());
    for (std::uint32_t index = 0; index < geometry_.cpu_rings; ++index) LEAT_TRY(map(index));
    return {};
}

// Two threads may map a ring at once: each puts the same pages there.
Result<void> RingSet::map(std::uint32_t index) const {
    LEAT_CHECK(index < geometry_.ring_count());
    if (is_mapped_[index].load(std::memory_order_acquire)) return {};
    const int sharing = memory_ == Memory::kCopy ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
    const bool is_shared_out = maps_ != nullptr && index >= geometry_.cpu_rings;
    if (is_shared_out && !maps_->take_one())
        return fail(ErrorKind::kIo, "cannot map a ring of a thread: its user has all that one may (vm.max_map_count)");
    auto mapped = map_ring(place_of(index), fd(), geometry_.ring_size, index, sharing);
    const bool was_mapped = mapped && is_mapped_[index].exchange(true, std::memory_order_acq_rel);
    if (is_shared_out && (!mapped || was_mapped)) maps_->give_one_back();
    return mapped;
}

RingSetHeader& RingSet::header() const {
    return *reinterpret_cast<RingSetHeader*>(set_page_.data());  // NOLINT(*-reinterpret-cast)
}

void RingSet::show_life(std::uint64_t now) const {
    std::atomic_ref(header().heartbeat).store(now, std::memory_order_relaxed);
}

std::uint32_t RingSet::snapshots_wanted() const {
    return std::atomic_ref(header().snapshots_wanted).load(std::memory_order_acquire);
}

std::uint32_t RingSet::thread_rings_used() const {
    // J: pairs with I in ring_owner.cpp's tell_use(), which comes before a ring's first record is stamped. Programs can
    // write any number here: it is cut to what there is.
    return std::min(std::atomic_ref(header().thread_rings_used).load(std::memory_order_acquire),
                    geometry_.thread_rings);
}

std::byte* RingSet::place_of(std::uint32_t index) const {
    return rings_.data() + index * map_stride(geometry_.ring_size);
}

RingHeader& RingSet::ring(std::uint32_t index) const {
    LEAT_CHECK(map(index));
    return *reinterpret_cast<RingHeader*>(place_of(index));  // NOLINT(*-reinterpret-cast)
}

// A process has so many mappings at most (vm.max_map_count), and programs say how many rings they use.
std::uint32_t RingSet::mapped_in_use() const {
    const std::uint32_t used = geometry_.cpu_rings + thread_rings_used();
    std::uint32_t mapped = geometry_.cpu_rings;
    while (mapped < used && map(mapped)) ++mapped;
    return mapped;
}

std::uint64_t RingSet::records_in_file(std::uint32_t index) const {
    const auto header = header_in_file(fd(), file_offset(geometry_.ring_size, index));
    return header ? committed_records(header->head, header->next_head, header->next_records) : 0;
}

Result<void> RingSet::populate_thread_ring(std::uint32_t index) const {
    if (!is_promised_) return {};
    return populate(file_offset(geometry_.ring_size, geometry_.cpu_rings + index), file_stride(geometry_.ring_size));
}

// The first store makes the page ours, as it then is: a commit may be half in it. All that a commit writes follows.
Result<void> RingSet::hold_still(std::uint32_t index) const {
    LEAT_TRY(map(index));
    RingHeader& header = ring(index);
    const RingHead head = LEAT_TRY(look_at_head(header));
    header.next_head = header.head = head.position;
    header.next_records = head.records;
    header.last_timestamp = head.timestamp;
    return {};
}

std::uint64_t RingSet::fullest() const {
    std::uint64_t most = 0;
    const std::uint32_t used = mapped_in_use();
    for (std::uint32_t index = 0; index < used; ++index) {
        RingHeader& header = ring(index);
        const std::uint64_t tail = std::atomic_ref(header.tail).load(std::memory_order_relaxed);
        const std::uint64_t head = std::atomic_ref(header.head).load(std::memory_order_relaxed);
        most = std::max(most, std::min(head - tail, geometry_.ring_size));
    }
    return most;
}

RingReader RingSet::reader(std::uint32_t index) const {
    return {ring(index), geometry_.ring_size, ring_guard_.lost(index)};
}

BlockReader RingSet::block_reader(std::uint32_t index) const {
    return {ring(index), geometry_.ring_size, ring_guard_.lost(index)};
}

}  // namespace leat::ring
