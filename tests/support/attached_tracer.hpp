// The tracer of this process, attached to rings and a clock of its own, and one tracepoint.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "leat/abi.h"
#include "ring/ring_set.hpp"
#include "ring/shared_clock.hpp"
#include "support/runtime_directory.hpp"
#include "support/test_rings.hpp"
#include "tracer/channel.hpp"
#include "tracer/control_memory.hpp"
#include "tracer/process_page.hpp"
#include "tracer/thread_state.hpp"
#include "wire/app/control_file.hpp"

namespace leat::test {

// Control memory of one tracepoint, which points there.
class ControlMemoryOf {
  public:
    explicit ControlMemoryOf(leat_tracepoint& tracepoint) : tracepoint_(&tracepoint) {
        const leat_tracepoint* const list = &tracepoint;
        int fd = -1;
        memory_ = tracer::make_control_memory(&list, 1, true, fd);
        EXPECT_NE(memory_, nullptr);
        fd_ = UniqueFd(fd);
        tracepoint.word = &memory_->entry(0).word;
    }
    ~ControlMemoryOf() {
        tracepoint_->word = &tracepoint_->off;
        tracer::give_back(memory_);
    }
    ControlMemoryOf(const ControlMemoryOf&) = delete;
    ControlMemoryOf& operator=(const ControlMemoryOf&) = delete;

    [[nodiscard]] UniqueFd take_fd() { return std::move(fd_); }

  private:
    leat_tracepoint* tracepoint_;
    tracer::ControlMemory* memory_;
    UniqueFd fd_;
};

class AttachedTracer {
  public:
    AttachedTracer() {
        tracer::make_process_page();
        channel_ = tracer::attach_channel(channel_message(next_number()), set_.fd(), clock_.fd());
        EXPECT_NE(channel_, nullptr);
        for (std::uint32_t ring = 0; ring < geometry().ring_count(); ++ring) readers_.push_back(set_.reader(ring));
        switch_to({{.event_id = 1, .channel = channel_->number}});
    }
    AttachedTracer(const AttachedTracer&) = delete;
    AttachedTracer& operator=(const AttachedTracer&) = delete;

    static constexpr std::uint64_t kRingSize = ring::kMinRingSize;
    static constexpr std::size_t kRecordSize = 4 + 100;  // compact header, payload

    // From here on threads own rings, as they do without rseq.
    void do_without_rseq() { channel_->has_rseq = false; }

    // Emits one event of 100 bytes.
    void emit() { emit(staged_); }
    // Does the same with a stack that nobody else uses.
    void emit(std::vector<char>& staged) { leat_write(&tracepoint_, nullptr, 0, staged.data(), 100); }

    // What the tracepoint's events do from now on.
    void switch_to(const std::vector<wire::Action>& actions) { EXPECT_TRUE(control_.switch_to(0, actions)); }
    [[nodiscard]] tracer::Channel& channel() { return *channel_; }
    [[nodiscard]] wire::ControlFile& control() { return control_; }

    // Numbers of this lane's channels.
    static std::uint32_t next_number() {
        static std::uint32_t next = 1;
        return next++ << 2 | static_cast<std::uint32_t>(wire::Lane::kRecorder);
    }
    static wire::ChannelMessage channel_message(std::uint32_t number, std::uint32_t contexts = 0) {
        wire::ChannelMessage message{};
        message.number = number;
        message.contexts = contexts;
        message.ring_size = kRingSize;
        message.cpu_ring_count = geometry().cpu_rings;
        message.thread_ring_count = geometry().thread_rings;
        return message;
    }
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
    [[nodiscard]] ring::RingHeader& header(std::uint32_t ring) const { return set_.ring(ring); }
    [[nodiscard]] std::uint32_t bells() const { return __atomic_load_n(&set_.header().doorbell, __ATOMIC_RELAXED); }
    [[nodiscard]] leat_tracepoint& tracepoint() { return tracepoint_; }
    // The clock goes by a new line.
    void renew_clock() { clock_.discipline(0); }

  private:
    OnOneCpu on_one_cpu_;
    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create(geometry(), ring::clock_now(clock_.page()));
    std::vector<ring::RingReader> readers_;
    std::vector<char> staged_ = std::vector<char>(100 + LEAT_STAGE_SLACK, 'x');
    leat_tracepoint tracepoint_{&tracepoint_.off, 0, 0, "test:event", "test.c", nullptr, nullptr, 0, 6, 0, 1, {}};
    ControlMemoryOf memory_{tracepoint_};
    wire::ControlFile control_ = *wire::ControlFile::open(memory_.take_fd(), wire::Lane::kRecorder);
    tracer::Channel* channel_ = nullptr;
};

// A channel beside that of the AttachedTracer.
class OtherChannel {
  public:
    explicit OtherChannel(std::uint32_t contexts, std::uint32_t number = AttachedTracer::next_number())
        : channel_(tracer::attach_channel(AttachedTracer::channel_message(number, contexts), set_.fd(), clock_.fd())) {}

    [[nodiscard]] tracer::Channel& channel() const { return *channel_; }
    [[nodiscard]] const ring::RingSet& set() const { return set_; }
    [[nodiscard]] std::uint64_t records() const {
        std::uint64_t sum = 0;
        for (std::uint32_t ring = 0; ring < set_.geometry().ring_count(); ++ring)
            sum += set_.reader(ring).record_count();
        return sum;
    }

  private:
    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create(AttachedTracer::geometry(), ring::clock_now(clock_.page()));
    tracer::Channel* channel_;
};

}  // namespace leat::test
