#include "ring/shared_clock.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include "base/memory_place.hpp"
#include "base/sealed_memory.hpp"
#include "ring/clock.hpp"
#include "ring/ring_format.hpp"

namespace leat::ring {
namespace {

constexpr std::uint64_t kFixedPoint = 1ULL << 32;

std::uint64_t multiplier(std::uint64_t ns, std::uint64_t cycles) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(ns) * kFixedPoint / cycles);
}

// So far off, the TSC does not measure CLOCK_MONOTONIC: it runs on during a suspend, for one.
constexpr std::int64_t kMaxErrorNs = 100'000'000;
// A record further ahead than that was written by a program that overwrites its ring.
constexpr std::uint64_t kMaxAheadNs = 3'600'000'000'000;

// How long the first measurement of the TSC's frequency takes. It is good to about 100 ns / 2 ms = 50 ppm; discipline()
// makes it better from then on.
constexpr std::uint64_t kFirstMeasurementNs = 2'000'000;
// A slope that was measured over less than this is worse than the one before.
constexpr std::uint64_t kShortestMeasurementNs = 50'000'000;

// The shortest of several calls, in cycles.
template <class Call>
std::uint64_t cycles_of(const Call& call) {
    std::uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < 16; ++i) {
        const std::uint64_t before = __rdtsc();
        call();
        shortest = std::min<std::uint64_t>(shortest, __rdtsc() - before);
    }
    return shortest;
}

// Whether libc works the time out without the kernel.
bool is_time_read_in_user_space() {
    timespec time{};
    const std::uint64_t by_libc = cycles_of([&] { ::clock_gettime(CLOCK_MONOTONIC, &time); });
    const std::uint64_t by_kernel = cycles_of([&] { ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time); });
    return 2 * by_libc < by_kernel;
}

class SystemTime final : public TimeSource {
  public:
    SystemTime()
        : clock_source_(
              ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC)) {}

    // Of several tries the one that was least disturbed.
    Sample sample() override {
        Sample best{};
        std::uint64_t shortest = UINT64_MAX;
        for (int i = 0; i < 8; ++i) {
            const std::uint64_t before = __rdtsc();
            const std::uint64_t ns = system_now();
            const std::uint64_t after = __rdtsc();
            if (after - before >= shortest) continue;
            shortest = after - before;
            best = {before + (after - before) / 2, ns};
        }
        return best;
    }

    // The kernel trusts the TSC only where it is invariant and the same on all CPUs. The clock that KVM gives to its
    // guests is worked out from the TSC; and without the kernel only where it is the same on all CPUs ([kvm-clock]).
    [[nodiscard]] bool is_tsc_trusted() const override {
        std::array<char, 16> text{};
        const ssize_t size = ::pread(clock_source_.get(), text.data(), text.size(), 0);
        const std::string_view name(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
        return name == "tsc\n" || (name == "kvm-clock\n" && is_read_in_user_space_);
    }

  private:
    UniqueFd clock_source_;  // the kernel's name of it
    const bool is_read_in_user_space_ = is_time_read_in_user_space();
};

}  // namespace

std::unique_ptr<TimeSource> TimeSource::of_system() { return std::make_unique<SystemTime>(); }

Result<SharedClock> SharedClock::make(std::unique_ptr<TimeSource> source) {
    UniqueFd page(::memfd_create("leat-clock", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!page.is_open() || ::ftruncate(page.get(), kPageSize) != 0) return io_error("cannot create the clock page");
    while (is_memory_limited() && ::fallocate(page.get(), 0, 0, kPageSize) != 0)
        if (errno != EINTR) return io_error("no memory for the clock page");
    // Not against writing: whoever adopts the page must be able to map it. Who may not write there cannot open it so.
    if (::fcntl(page.get(), F_ADD_SEALS, kSizeSeals) != 0 || ::fchmod(page.get(), S_IRUSR | S_IWUSR) != 0)
        return io_error("cannot seal the clock page");
    SharedClock clock = LEAT_TRY(open(std::move(page), std::move(source)));
    new (clock.mapping_.data()) ClockPage{.magic = kClockPageMagic,
                                          .version = kClockPageVersion,
                                          .generation = 0,
                                          .source = ClockSource::kSystem,
                                          .system_offset = 0,
                                          .lines = {}};
    return clock;
}

Result<SharedClock> SharedClock::stopped(std::uint64_t ns) {
    SharedClock clock = LEAT_TRY(make(TimeSource::of_system()));
    clock.publish({.tsc_base = 0, .ns_base = ns, .multiplier = 0, .unused = 0}, ClockSource::kTsc);
    return clock;
}

Result<SharedClock> SharedClock::create(std::unique_ptr<TimeSource> source) {
    SharedClock clock = LEAT_TRY(make(std::move(source)));
    if (!clock.source_->is_tsc_trusted()) return clock;

    clock.first_ = clock.last_ = clock.source_->sample();
    while (clock.last_.ns - clock.first_.ns < kFirstMeasurementNs) clock.last_ = clock.source_->sample();
    const Sample& now = clock.last_;
    clock.publish({now.tsc, now.ns, multiplier(now.ns - clock.first_.ns, now.tsc - clock.first_.tsc), 0},
                  ClockSource::kTsc);
    return clock;
}

Result<SharedClock> SharedClock::open(UniqueFd page, std::unique_ptr<TimeSource> source) {
    SharedClock clock;
    clock.source_ = std::move(source);
    clock.fd_ = std::move(page);
    const std::string path = fmt::format("/proc/self/fd/{}", clock.fd_.get());
    clock.reading_fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!clock.reading_fd_.is_open()) return io_error("cannot open the clock page for reading (is /proc mounted?)");
    clock.mapping_ = LEAT_TRY(Mapping::of_file(clock.fd_.get(), kPageSize, true));
    return clock;
}

Result<SharedClock> SharedClock::adopt(UniqueFd page, std::unique_ptr<TimeSource> source) {
    if (!is_sealed(page.get(), kPageSize)) return corrupt("no clock page, sealed");
    SharedClock clock = LEAT_TRY(open(std::move(page), std::move(source)));
    const ClockPage& known = clock.page();
    if (known.magic != kClockPageMagic || known.version != kClockPageVersion)
        return unsupported("a clock page of another version");
    if (known.source != ClockSource::kTsc) return clock;
    clock.first_ = clock.last_ = clock.source_->sample();
    const ClockLine& line = known.lines[known.generation & 1];
    const std::uint64_t ours = clock.value_at(clock.last_, line);
    const auto error_ns = static_cast<std::int64_t>(clock.last_.ns - ours);
    // More than the line can have gone wrong meanwhile was there before. If the TSC began anew meanwhile, the line says
    // less than CLOCK_MONOTONIC.
    const bool is_line_behind = clock.last_.tsc < line.tsc_base && error_ns > 0;
    if (std::abs(error_ns) > kMaxErrorNs && !is_line_behind) clock.distance_ = ours - clock.last_.ns;
    return clock;
}

const ClockPage& SharedClock::page() const { return writable_page(); }

ClockPage& SharedClock::writable_page() const {
    return *reinterpret_cast<ClockPage*>(mapping_.data());  // NOLINT(*-reinterpret-cast)
}

// A reader takes the line of the generation that it saw and looks at the generation again when it is done: so the line
// not in force may be rewritten, and one that is being read never counts.
void SharedClock::publish(const ClockLine& line, ClockSource source) {
    ClockPage& page = writable_page();
    const std::uint32_t next = page.generation + 1;
    // E: who sees a part of the new line sees the generation that took the old one out of force. Pairs with D in
    // clock_now() and in rseq_sequence_x86_64.inc.
    ClockLine& unused = page.lines[next & 1];
    std::atomic_ref(unused.tsc_base).store(line.tsc_base, std::memory_order_release);
    std::atomic_ref(unused.ns_base).store(line.ns_base, std::memory_order_release);
    std::atomic_ref(unused.multiplier).store(line.multiplier, std::memory_order_release);
    // G: leave_tsc() has stored the system's offset before. Pairs with F in clock.cpp's source_of().
    std::atomic_ref(page.source).store(source, std::memory_order_release);
    std::atomic_ref(page.generation).store(next, std::memory_order_release);
}

void SharedClock::discipline(std::uint64_t newest) {
    const ClockPage& page = writable_page();
    if (page.source != ClockSource::kTsc) return;
    const ClockLine& line = page.lines[page.generation & 1];
    const Sample now = source_->sample();
    const std::uint64_t ours = value_at(now, line);
    // Time must not stand still until the others have caught up with a CPU whose TSC runs ahead.
    const bool is_ahead_somewhere = newest > ours + kMaxErrorNs && newest - ours < kMaxAheadNs;
    if (is_ahead_somewhere || !source_->is_tsc_trusted()) return leave_tsc(now, is_ahead_somewhere ? newest : ours);
    bend(now, line, ours);
    last_ = now;
}

// By the line; or by CLOCK_MONOTONIC, if the TSC began anew, as it does after some kinds of suspend.
std::uint64_t SharedClock::value_at(const Sample& now, const ClockLine& line) const {
    if (now.tsc < line.tsc_base) return line.ns_base + (now.ns - last_.ns);
    const auto elapsed = static_cast<unsigned __int128>(now.tsc - line.tsc_base) * line.multiplier;
    return line.ns_base + static_cast<std::uint64_t>(elapsed >> 32);
}

// The true slope, over the longest time we know, and what takes the error away within the next second. At most 500 ppm
// of it at a time, as the kernel's own slewing: time must never stand still or run.
void SharedClock::bend(const Sample& now, const ClockLine& line, std::uint64_t ours) {
    auto error_ns = static_cast<std::int64_t>(now.ns + distance_ - ours);
    if (now.tsc < line.tsc_base || std::abs(error_ns) > kMaxErrorNs) {
        // The two have come apart. Where we are behind, time may jump; it never goes back.
        ours = std::max(ours, now.ns + distance_);
        distance_ = ours - now.ns;
        error_ns = 0;
        first_ = now;
    }
    const bool is_measured = now.ns - first_.ns >= kShortestMeasurementNs;
    const std::uint64_t slope = is_measured ? multiplier(now.ns - first_.ns, now.tsc - first_.tsc) : line.multiplier;
    constexpr std::int64_t kMaxSlewNs = 500'000;
    const std::int64_t slew_ns = std::clamp(error_ns, -kMaxSlewNs, kMaxSlewNs);
    const auto correction = static_cast<std::int64_t>(static_cast<__int128>(slope) * slew_ns / 1'000'000'000);
    publish({now.tsc, ours, slope + static_cast<std::uint64_t>(correction), 0}, ClockSource::kTsc);
}

// The system's clock goes on from `ours`.
void SharedClock::leave_tsc(const Sample& now, std::uint64_t ours) {
    ClockPage& page = writable_page();
    std::atomic_ref(page.system_offset).store(ours - now.ns, std::memory_order_release);
    publish(page.lines[page.generation & 1], ClockSource::kSystem);
}

}  // namespace leat::ring
