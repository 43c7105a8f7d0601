// discards WAY: emits test:discarded in a way that loses events for one reason, then test:done once. Prints how many
// were emitted, and how many of them must have been discarded ("-": that depends on the recorder's speed).
//
//     ring_full     more than a ring of 64K holds, while the recorder stands still
//     too_large     records of 20,000 bytes, into a ring of 64K
//     no_ring       all rings of threads belong to others; without rseq
//     interrupted   a signal handler in the middle of a large record, in which another one comes, and so on
//     borrowed      all rings of guests belong to others, in a child of vfork
//     unreadable    the program writes over its records before the recorder has seen them
#include <leat/tracepoint.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ring/ring_format.hpp"
#include "stopped_recorder.hpp"

#define DISCARDED_FIELDS(FIELD) FIELD(sequence, uint8_t, block, block, size_t, size)
LEAT_TRACEPOINT(test, discarded, LEAT_INFO, DISCARDED_FIELDS, const uint8_t* block, size_t size);
#define DONE_FIELDS(FIELD) FIELD(integer, uint32_t, n, n)
LEAT_TRACEPOINT(test, done, LEAT_INFO, DONE_FIELDS, uint32_t n);

namespace {

using leat::ring::RingHeader;
using leat::ring::RingSetHeader;

// The parts of the rings' file that the tracer has mapped.
class OwnRings {
  public:
    OwnRings() {
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) {
            Range range{};
            if (line.find("memfd:leat-rings") == std::string::npos) continue;
            if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &range.begin, &range.end, &range.offset) == 3)
                ranges_.push_back(range);
        }
        set_ = reinterpret_cast<RingSetHeader*>(at(0, leat::ring::kPageSize));
        if (set_ == nullptr) std::exit(3);
    }

    [[nodiscard]] uint32_t cpu_rings() const { return set_->cpu_ring_count; }
    [[nodiscard]] uint32_t thread_rings() const { return set_->thread_ring_count; }
    [[nodiscard]] uint64_t ring_size() const { return set_->ring_size; }

    // nullptr: not mapped.
    [[nodiscard]] RingHeader* ring(uint32_t index) const {
        const uint64_t offset = leat::ring::file_offset(set_->ring_size, index);
        return reinterpret_cast<RingHeader*>(at(offset, leat::ring::kPageSize + set_->ring_size));
    }

  private:
    struct Range {
        uint64_t begin, end, offset;
    };
    [[nodiscard]] char* at(uint64_t offset, uint64_t size) const {
        for (const Range& range : ranges_) {
            if (offset >= range.offset && offset + size <= range.offset + (range.end - range.begin))
                return reinterpret_cast<char*>(range.begin + (offset - range.offset));
        }
        return nullptr;
    }

    std::vector<Range> ranges_;
    RingSetHeader* set_;
};

// The owner of the threads' rings is in another PID namespace. Nobody can see from here that it does not exist.
class TakenRings {
  public:
    TakenRings() {
        for (uint32_t index = 0; index < rings_.thread_rings(); ++index)
            if (RingHeader* ring = rings_.ring(rings_.cpu_rings() + index)) {
                owners_.push_back({ring, ring->owner});
                __atomic_store_n(&ring->owner, uint64_t{1} << 32 | 1, __ATOMIC_RELAXED);
            }
        if (owners_.empty()) std::exit(4);
    }
    ~TakenRings() {
        for (const Owner& owner : owners_) __atomic_store_n(&owner.ring->owner, owner.was, __ATOMIC_RELAXED);
    }
    TakenRings(const TakenRings&) = delete;
    TakenRings& operator=(const TakenRings&) = delete;

  private:
    struct Owner {
        RingHeader* ring;
        uint64_t was;
    };
    OwnRings rings_;
    std::vector<Owner> owners_;
};

struct Counts {
    uint32_t emitted;
    std::optional<uint32_t> discarded;
};

void emit(uint32_t count, size_t size = 4) {
    static const uint8_t block[20'000] = {};
    for (uint32_t i = 0; i < count; ++i) leat_tracepoint(test, discarded, block, size);
}

Counts fill_the_ring() {
    const StoppedRecorder recorder;
    emit(100'000);
    return {100'000, std::nullopt};
}

Counts emit_too_large() {
    emit(7, 20'000);
    return {7, 7};
}

Counts emit_without_ring() {
    const TakenRings taken;
    emit(11);
    return {11, 11};
}

Counts emit_as_guest() {
    const TakenRings taken;
    const pid_t child = vfork();
    if (child == 0) {
        emit(5);
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    return {5, 5};
}

// Reading the first page raises a signal, whose handler reads the second page, and so on. So each signal comes in the
// middle of a record.
class FaultingPages {
  public:
    static constexpr uint32_t kPages = 17;  // one more than the process has buffers
    static constexpr size_t kSize = 4096;

    FaultingPages() {
        void* pages = mmap(nullptr, kPages * kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) std::exit(5);
        first_ = static_cast<uint8_t*>(pages);
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGSEGV, &action, nullptr);
    }
    static void read(uint32_t page) { leat_tracepoint(test, discarded, first_ + page * kSize, size_t{2'000}); }

  private:
    static void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
        const auto page = static_cast<uint32_t>((static_cast<uint8_t*>(info->si_addr) - first_) / kSize);
        if (page >= kPages) _exit(6);
        if (page + 1 < kPages) read(page + 1);
        mprotect(first_ + page * kSize, kSize, PROT_READ);
    }
    static inline uint8_t* first_;
};

Counts emit_in_handlers() {
    const FaultingPages pages;
    FaultingPages::read(0);
    return {FaultingPages::kPages, 1};
}

// Calls look() for each ring that was written to.
template <class Look>
void for_each_used(const OwnRings& rings, Look look) {
    for (uint32_t index = 0; index < rings.cpu_rings() + rings.thread_rings(); ++index) {
        RingHeader* const ring = rings.ring(index);
        if (ring != nullptr && __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) != 0) look(*ring);
    }
}

Counts write_over_rings() {
    std::optional<OwnRings> rings;
    {
        const StoppedRecorder recorder;
        emit(1);  // claims a ring, without rseq
        rings.emplace();
        emit(30);
        for_each_used(*rings, [](RingHeader& ring) {
            std::memset(reinterpret_cast<char*>(&ring) + leat::ring::kPageSize, 0xff, ring.head);
        });
    }
    // Until the recorder has looked, new events would be lost with the overwritten ones.
    for_each_used(*rings, [](RingHeader& ring) {
        for (int i = 0; i < 60'000 && __atomic_load_n(&ring.tail, __ATOMIC_ACQUIRE) != ring.head; ++i) usleep(1'000);
    });
    return {31, 31};
}

struct Way {
    std::string_view name;
    Counts (*take)();
};
constexpr Way kWays[] = {{"ring_full", fill_the_ring},      {"too_large", emit_too_large},
                         {"no_ring", emit_without_ring},    {"borrowed", emit_as_guest},
                         {"interrupted", emit_in_handlers}, {"unreadable", write_over_rings}};

}  // namespace

int main(int argc, char** argv) {
    for (const Way& way : kWays) {
        if (argc < 2 || way.name != argv[1]) continue;
        const Counts counts = way.take();
        if (!leat_enabled(test, done)) return 7;
        // A thread without a ring looks for one again only after a while.
        usleep(20'000);
        leat_tracepoint(test, done, counts.emitted);
        std::printf("%u %s\n", counts.emitted + 1, counts.discarded ? std::to_string(*counts.discarded).c_str() : "-");
        return 0;
    }
    return 2;
}
