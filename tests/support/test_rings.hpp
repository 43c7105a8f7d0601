// Rings with their writers in this process, and a clock that the test sets.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ring/clock.hpp"
#include "ring/ring_set.hpp"
#include "ring/rseq_writer.hpp"
#include "ring/thread_writer.hpp"
#include "support/ring_memory.hpp"
#include "support/rseq.hpp"

namespace leat::test {

// The CPUs that this process may run on.
inline std::vector<std::uint32_t> usable_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    std::vector<std::uint32_t> cpus;
    for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return cpus;
}

// Keeps the thread on one of its CPUs, so that the ring it writes to is known.
class OnOneCpu {
  public:
    OnOneCpu() {
        ::sched_getaffinity(0, sizeof before_, &before_);
        while (!CPU_ISSET(cpu_, &before_)) ++cpu_;
        move_to(cpu_);
    }
    ~OnOneCpu() { ::sched_setaffinity(0, sizeof before_, &before_); }
    OnOneCpu(const OnOneCpu&) = delete;
    OnOneCpu& operator=(const OnOneCpu&) = delete;

    [[nodiscard]] std::uint32_t cpu() const { return cpu_; }

    static void move_to(std::uint32_t cpu, pid_t thread = 0) {
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(cpu, &only);
        ::sched_setaffinity(thread, sizeof only, &only);
    }

  private:
    cpu_set_t before_{};
    std::uint32_t cpu_ = 0;
};

// Both writers write the same bytes, so tests of those bytes run with each.
enum class Writer { kOfCpu, kOfThread };

inline std::string name_of(const testing::TestParamInfo<Writer>& writer) {
    return writer.param == Writer::kOfCpu ? "CpuRing" : "ThreadRing";
}

// Which event, and how its record begins.
struct TestEvent {
    ring::HeaderKind kind;
    std::uint32_t id;
};

constexpr std::uint64_t kStartOfTime = 1'000'000;  // ns; of the rings

// What a writer needs, with contexts of any size.
class TestWriter {
  public:
    TestWriter(const ring::RingMap& map, ring::HeaderKind kind, std::string_view contexts = {}) {
        made_.writer.map = map;
        made_.writer.map.form = ring::header_form(kind);
        made_.writer.context_size = contexts.size();
        contexts.copy(made_.writer.contexts, contexts.size());
    }
    [[nodiscard]] ring::RecordWriter* get() { return &made_.writer; }

  private:
    struct {
        ring::RecordWriter writer{};
        std::array<char, 200> more_contexts{};
    } made_;
};

class TestRings {
  public:
    explicit TestRings(std::uint64_t ring_size = ring::kMinRingSize, std::uint32_t cpu_rings = ring::possible_cpus(),
                       bool overwrites = false)
        : set_(*ring::RingSet::create(
              {.ring_size = ring_size, .cpu_rings = cpu_rings, .thread_rings = 4, .overwrites = overwrites},
              kStartOfTime)),
          map_{.rings = mapped_.data(),
               .mask = ring_size - 1,
               .clock = &clock_,
               .rseq_offset = has_rseq() ? __rseq_offset : 0,
               .cpu_ring_count = cpu_rings,
               .thread_ring_count = 4,
               .form = ring::header_form(ring::HeaderKind::kCompact)} {
        clock_.source = ring::ClockSource::kTsc;
        at(kStartOfTime);
        if (overwrites) map_.overwrite();
        // All rings of threads count as claimed.
        set_.header().thread_rings_used = map_.thread_ring_count;
        for (std::uint32_t ring = 0; ring < map_.thread_ring_count; ++ring) {
            set_.ring(own_ring_index() + ring).last_timestamp = kStartOfTime;
            set_.ring(own_ring_index() + ring).limit = overwrites ? ring::block_size(ring_size) : ring_size;
            set_.ring(own_ring_index() + ring).blocks[0].timestamp = kStartOfTime;
        }
    }
    TestRings(const TestRings&) = delete;
    TestRings& operator=(const TestRings&) = delete;

    // Sets the time that writers read, in ns, by a clock line that does not advance.
    TestRings& at(std::uint64_t now) {
        clock_.generation += 2;
        clock_.lines[0] = {.tsc_base = 0, .ns_base = now, .multiplier = 0, .unused = 0};
        return *this;
    }

    ring::WriteOutcome write(Writer writer, TestEvent event, std::string_view payload, std::string_view contexts = {}) {
        const std::string staged = std::string(payload) + std::string(ring::kCopySlack, '~');
        if (writer == Writer::kOfThread) return write_to(own_ring(), event, staged.data(), payload.size(), contexts);
        TestWriter with(map_, event.kind, contexts);
        return ring::leat_rseq_write(with.get(), event.id, &word_, staged.data(), payload.size(), 1);
    }

    // Writes into a ring that belongs to a thread.
    ring::WriteOutcome write_to(ring::RingHeader& ring, TestEvent event, const void* payload, std::uint64_t size,
                                std::string_view contexts = {}) {
        TestWriter with(map_, event.kind, contexts);
        return ring::thread_write(*with.get(), ring, event.id, payload, size, ring::clock_now(clock_));
    }

    [[nodiscard]] const ring::ClockPage& clock() const { return clock_; }

    // The word that writers look at; they expect 1.
    void set_word(std::uint32_t word) { word_ = word; }

    [[nodiscard]] const ring::RingSet& set() const { return set_; }
    [[nodiscard]] const ring::RingMap& map() const { return map_; }
    // The index of the first ring that belongs to threads.
    [[nodiscard]] std::uint32_t own_ring_index() const { return map_.cpu_ring_count; }
    [[nodiscard]] ring::RingHeader& own_ring() const { return set_.ring(own_ring_index()); }

  private:
    ring::ClockPage clock_{};
    ring::RingSet set_;
    std::vector<ring::RingHeader*> mapped_ = all_rings(set_);
    ring::RingMap map_;
    std::uint32_t word_ = 1;
};

}  // namespace leat::test
