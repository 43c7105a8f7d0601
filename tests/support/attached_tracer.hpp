// The tracer of this process, attached to rings and a clock of its own, and one tracepoint.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "leat/abi.h"
#include "ring/ring_set.hpp"
#include "ring/shared_clock.hpp"
#include "support/test_rings.hpp"
#include "tracer/channel.hpp"
#include "tracer/process_page.hpp"
#include "tracer/thread_state.hpp"

namespace leat::test {

class AttachedTracer {
  public:
    AttachedTracer() {
        tracer::make_process_page();
        wire::RegistrationDoneMessage message{};
        message.session_id = 1;
        message.ring_size = kRingSize;
        message.cpu_ring_count = geometry().cpu_rings;
        message.thread_ring_count = geometry().thread_rings;
        EXPECT_TRUE(tracer::attach_channel(message, set_.fd(), clock_.fd()));
        tracer::begin_new_generation();  // threads forget the rings of the previous test
        tracer::thread_state.ring = nullptr;
        for (std::uint32_t ring = 0; ring < geometry().ring_count(); ++ring) readers_.push_back(set_.reader(ring));
        tracepoint_.enabled = 1;
        tracepoint_.binding = &binding_;
    }
    AttachedTracer(const AttachedTracer&) = delete;
    AttachedTracer& operator=(const AttachedTracer&) = delete;

    static constexpr std::uint64_t kRingSize = ring::kMinRingSize;
    static constexpr std::size_t kRecordSize = 4 + 100;  // compact header, payload

    // From here on threads own rings, as they do without rseq.
    void do_without_rseq() { tracer::process_channel.has_rseq = false; }

    // Emits one event of 100 bytes.
    void emit() { emit(staged_); }
    // Does the same with a stack that nobody else uses.
    void emit(std::vector<char>& staged) { leat_write(&tracepoint_, staged.data() + LEAT_STAGE_HEADROOM, 100); }

    [[nodiscard]] static ring::RingSetGeometry geometry() {
        return {.ring_size = kRingSize, .cpu_rings = ring::possible_cpus(), .thread_rings = 10};
    }
    [[nodiscard]] std::uint64_t records() const {
        std::uint64_t sum = 0;
        for (const ring::RingReader& reader : readers_) sum += reader.record_count();
        return sum;
    }
    [[nodiscard]] std::uint64_t discarded(ring::DiscardReason reason) const {
        std::uint64_t sum = 0;
        for (const ring::RingReader& reader : readers_) sum += reader.discarded(reason);
        return sum;
    }
    [[nodiscard]] std::uint64_t discarded() const {
        std::uint64_t sum = 0;
        for (const ring::RingReader& reader : readers_) sum += reader.discarded();
        return sum;
    }
    // The ring that got the events; nullptr if there were none yet.
    [[nodiscard]] ring::RingHeader* used_ring() const {
        for (std::uint32_t ring = 0; ring < geometry().ring_count(); ++ring)
            if (set_.reader(ring).record_count() != 0) return &header(ring);
        return nullptr;
    }
    [[nodiscard]] ring::RingHeader& header(std::uint32_t ring) const {
        return *reinterpret_cast<ring::RingHeader*>(set_.rings() + ring * ring::map_stride(kRingSize));  // NOLINT
    }
    [[nodiscard]] std::uint32_t bells() const { return set_.header().doorbell; }
    [[nodiscard]] leat_tracepoint& tracepoint() { return tracepoint_; }

  private:
    OnOneCpu on_one_cpu_;
    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create(geometry(), ring::clock_now(clock_.page()));
    std::vector<ring::RingReader> readers_;
    std::vector<char> staged_ = std::vector<char>(LEAT_STAGE_HEADROOM + 100 + LEAT_STAGE_SLACK, 'x');
    tracer::Binding binding_{.header = ring::event_header(ring::HeaderKind::kCompact, 1),
                             .channel = &tracer::process_channel};
    leat_tracepoint tracepoint_{};
};

}  // namespace leat::test
