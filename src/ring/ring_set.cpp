#include "ring/ring_set.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>
#include <new>
#include <string>

#include "base/check.hpp"

namespace leat::ring {
namespace {

// Sealed before anybody else has it: a program that could shrink the file would make every other user of it fault.
Result<UniqueFd> make_memfd(std::uint64_t size) {
    UniqueFd fd(::memfd_create("leat-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd.is_open()) return io_error("cannot create the ring memory");
    if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
        return io_error(fmt::format("cannot size the ring memory to {} bytes", size));
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return io_error("cannot seal the ring memory");
    return fd;
}

// Maps part of the file over reserved address space.
Result<void> map_over(std::byte* at, std::uint64_t size, int fd, std::uint64_t offset) {
    void* mapped = ::mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) return io_error("cannot map a ring");
    return {};
}

// Each ring's records twice in a row (ring_format.hpp), all rings at equal distances: one multiplication finds a ring.
Result<Mapping> map_rings(int fd, const RingSetGeometry& geometry) {
    const std::uint64_t size = geometry.ring_size;
    Mapping space = LEAT_TRY(Mapping::of_address_space(geometry.ring_count() * map_stride(size)));
    for (std::uint32_t index = 0; index < geometry.ring_count(); ++index) {
        std::byte* at = space.data() + index * map_stride(size);
        const std::uint64_t offset = file_offset(size, index);
        LEAT_TRY(map_over(at, kPageSize + size, fd, offset));
        LEAT_TRY(map_over(at + kPageSize + size, size, fd, offset + kPageSize));
    }
    return space;
}

}  // namespace

// Not the number of CPUs there are: their numbers may have gaps, and more may be plugged in. The list ends with the
// highest number: "0-3,8-11".
std::uint32_t possible_cpus() {
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

Result<RingSet> RingSet::create(const RingSetGeometry& geometry, std::uint64_t now) {
    LEAT_CHECK(is_valid_ring_size(geometry.ring_size) && geometry.ring_count() <= kMaxRings);
    RingSet set;
    set.geometry_ = geometry;
    set.fd_ = LEAT_TRY(make_memfd(file_size(geometry.ring_size, geometry.ring_count())));
    set.set_page_ = LEAT_TRY(Mapping::of_file(set.fd(), kPageSize, true));
    set.rings_ = LEAT_TRY(map_rings(set.fd(), geometry));
    new (set.set_page_.data()) RingSetHeader{.magic = kRingSetMagic,
                                             .version = kRingSetVersion,
                                             .ring_size = geometry.ring_size,
                                             .cpu_ring_count = geometry.cpu_rings,
                                             .thread_ring_count = geometry.thread_rings,
                                             .doorbell = 0,
                                             .thread_rings_used = 0};
    // Rings of threads stay untouched until somebody claims one: there are many, and few are ever used. Their first
    // writer takes the limit of 0 for a wish to be woken, and their time of 0 for a long gap.
    for (std::uint32_t index = 0; index < geometry.cpu_rings; ++index) {
        set.ring(index).last_timestamp = now;
        set.ring(index).limit = geometry.ring_size;
    }
    return set;
}

RingSetHeader& RingSet::header() const {
    return *reinterpret_cast<RingSetHeader*>(set_page_.data());  // NOLINT(*-reinterpret-cast)
}

std::uint32_t RingSet::thread_rings_used() const {
    // J: pairs with I in ring_owner.cpp's tell_use(), which comes before a ring's first record is stamped. Programs can
    // write any number here: it is cut to what there is.
    return std::min(std::atomic_ref(header().thread_rings_used).load(std::memory_order_acquire),
                    geometry_.thread_rings);
}

char* RingSet::rings() const { return reinterpret_cast<char*>(rings_.data()); }  // NOLINT(*-reinterpret-cast)

RingHeader& RingSet::ring(std::uint32_t index) const {
    LEAT_CHECK(index < geometry_.ring_count());
    // NOLINTNEXTLINE(*-reinterpret-cast)
    return *reinterpret_cast<RingHeader*>(rings_.data() + index * map_stride(geometry_.ring_size));
}

RingReader RingSet::reader(std::uint32_t index) const { return {ring(index), geometry_.ring_size}; }

}  // namespace leat::ring
