#include "consumer/progress.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <numeric>

#include "base/file.hpp"
#include "base/sealed_memory.hpp"

namespace leat::consumer {
namespace {

// No stream gets that far; one that says so was written over.
constexpr std::uint64_t kMaxNumber = std::uint64_t{1} << 62;
// ns; nor can readers show what is later.
constexpr std::uint64_t kMaxTime = std::numeric_limits<std::int64_t>::max();

std::size_t stream_count(std::span<const std::uint32_t> rings) {
    return std::accumulate(rings.begin(), rings.end(), std::size_t{0});
}

bool can_be(const StreamProgress& progress) {
    return progress.sequence_number <= kMaxNumber && std::max(progress.timestamp, progress.last_record) <= kMaxTime;
}

std::size_t page_end(std::size_t size) {
    constexpr std::size_t kPageSize = 4096;
    return (size + kPageSize - 1) / kPageSize * kPageSize;
}

}  // namespace

// Pages of streams that nobody uses never come into being, but for the entries in a file. Where memory is limited, all
// are there: nobody could put others in their place.
Result<Progress> Progress::create(std::span<const std::uint32_t> rings, const MemoryPlace& place) {
    const std::size_t size = size_of(rings);
    const std::size_t promised = place.is_directory() ? size_of_entries(rings) : size;
    return map(LEAT_TRY(place.make("progress", size, std::array{MemoryPlace::Part{0, promised}})), rings);
}

Result<Progress> Progress::adopt(UniqueFd fd, std::span<const std::uint32_t> rings) {
    LEAT_TRY(check_size(fd.get(), rings));
    return map(std::move(fd), rings);
}

Result<Progress> Progress::copy_of(int fd, std::span<const std::uint32_t> rings) {
    LEAT_TRY(check_size(fd, rings));
    Progress progress = LEAT_TRY(create(rings, MemoryPlace::without_names()));
    const auto copied = read_at(fd, 0, std::span(progress.mapping_.data(), progress.mapping_.size()));
    if (!copied) return wrap("the progress", copied.error());
    if (*copied < progress.mapping_.size()) return corrupt("the progress became shorter");
    return progress;
}

Result<Progress> Progress::map(UniqueFd fd, std::span<const std::uint32_t> rings) {
    Progress progress;
    progress.mapping_ = LEAT_TRY(Mapping::of_file(fd.get(), size_of(rings), true));
    if (!is_sealed(fd.get(), size_of(rings))) {
        const std::size_t entries = page_end(size_of_entries(rings));
        progress.guard_ = LEAT_TRY(FaultGuard::of(progress.mapping_.data(), entries));
        progress.guard_of_plans_ =
            LEAT_TRY(FaultGuard::of(progress.mapping_.data() + entries, progress.mapping_.size() - entries));
    }
    progress.fd_ = std::move(fd);
    std::size_t first = 0;
    for (const std::uint32_t count : rings) {
        progress.first_.push_back(first);
        first += count;
    }
    progress.first_.push_back(first);
    return progress;
}

std::size_t Progress::size_of(std::span<const std::uint32_t> rings) {
    return page_end(size_of_entries(rings)) + stream_count(rings) * sizeof(Plans);
}

std::size_t Progress::size_of_entries(std::span<const std::uint32_t> rings) {
    return stream_count(rings) * sizeof(Entry);
}

Result<void> Progress::check_size(int fd, std::span<const std::uint32_t> rings) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        static_cast<std::size_t>(status.st_size) != size_of(rings))
        return corrupt("not the progress of {} streams", stream_count(rings));
    return {};
}

Progress::Entry& Progress::entry(StreamId stream) const {
    auto* const entries = reinterpret_cast<Entry*>(mapping_.data());  // NOLINT(*-reinterpret-cast)
    return entries[index(stream)];
}

Progress::Plans& Progress::plans(StreamId stream) const {
    std::byte* const behind = mapping_.data() + page_end(first_.back() * sizeof(Entry));
    return reinterpret_cast<Plans*>(behind)[index(stream)];  // NOLINT(*-reinterpret-cast)
}

std::optional<StreamProgress> Progress::find(StreamId stream) const {
    const Entry& known = entry(stream);
    if (known.latest == 0 || known.latest > known.slots.size()) return std::nullopt;
    const StreamProgress& saved = known.slots.at(known.latest - 1);
    return can_be(saved) ? std::optional(saved) : std::nullopt;
}

std::vector<StreamId> Progress::streams() const {
    std::vector<StreamId> streams;
    streams.reserve(first_.back());
    for (std::uint32_t channel = 0; channel + 1 < first_.size(); ++channel)
        for (std::uint32_t ring = 0; ring < first_[channel + 1] - first_[channel]; ++ring)
            streams.push_back({channel, ring});
    return streams;
}

std::map<StreamId, StreamProgress> Progress::begun() const {
    std::map<StreamId, StreamProgress> begun;
    for (const StreamId stream : streams()) {
        const auto progress = find(stream);
        if (progress && progress->sequence_number != 0) begun.emplace(stream, *progress);
    }
    return begun;
}

void Progress::save(StreamId stream, const StreamProgress& progress) {
    Entry& known = entry(stream);
    const std::uint64_t next = known.latest == 1 ? 2 : 1;
    known.slots.at(next - 1) = progress;
    // Other processes see memory in the order of these stores: this one comes last.
    std::atomic_ref(known.latest).store(next, std::memory_order_release);
}

void Progress::plan(StreamId stream, const PlannedPacket& packet) {
    const std::uint64_t number = packet.before.sequence_number;
    const auto saved = find(stream);
    if (number - (saved ? saved->sequence_number : 0) < kMaxPlanned) plans(stream).at(number % kMaxPlanned) = packet;
    std::atomic_ref(entry(stream).numbers_used).store(number + 1, std::memory_order_release);
}

void Progress::take_back(StreamId stream, std::uint64_t number) {
    std::atomic_ref(entry(stream).numbers_used).store(number, std::memory_order_release);
}

void Progress::forget_planned(StreamId stream, std::uint64_t number) {
    plans(stream).at(number % kMaxPlanned).before.sequence_number = ~std::uint64_t{0};
}

std::vector<PlannedPacket> Progress::planned(StreamId stream) const {
    const auto saved = find(stream);
    const std::uint64_t first = saved ? saved->sequence_number : 0;
    const std::uint64_t count = std::min<std::uint64_t>(numbers_used(stream) - first, kMaxPlanned);
    std::vector<PlannedPacket> planned;
    for (std::uint64_t number = first; number - first < count; ++number) {
        const PlannedPacket& packet = plans(stream).at(number % kMaxPlanned);
        if (packet.before.sequence_number == number && packet.size != 0) planned.push_back(packet);
    }
    return planned;
}

std::uint64_t Progress::numbers_used(StreamId stream) const {
    const auto saved = find(stream);
    const std::uint64_t used = entry(stream).numbers_used;
    return std::max(saved ? saved->sequence_number : 0, used <= kMaxNumber ? used : 0);
}

// The size of what would be planned is the ordinal here. It is written last: 0 is none.
void Progress::add_end(StreamId stream, const End& end) {
    PlannedPacket& slot = plans(stream).at(end.ordinal % kMaxPlanned);
    std::atomic_ref(slot.size).store(0, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_release);
    slot.before = end.at;
    std::atomic_ref(slot.size).store(end.ordinal, std::memory_order_release);
}

std::vector<Progress::End> Progress::ends(StreamId stream) const {
    std::vector<End> ends;
    for (const PlannedPacket& slot : plans(stream))
        if (slot.size != 0 && can_be(slot.before)) ends.push_back({.ordinal = slot.size, .at = slot.before});
    std::ranges::sort(ends, {}, &End::ordinal);
    return ends;
}

void Progress::drop_ends(StreamId stream, std::uint64_t from_ordinal) {
    for (PlannedPacket& slot : plans(stream))
        if (slot.size >= from_ordinal) slot.size = 0;
}

std::uint64_t Progress::bytes() const {
    std::uint64_t sum = 0;
    for (const StreamId stream : streams()) {
        if (const auto saved = find(stream)) sum += saved->bytes;
        for (const PlannedPacket& packet : planned(stream)) sum += packet.size;
    }
    return sum;
}

}  // namespace leat::consumer
