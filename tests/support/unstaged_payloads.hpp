// Events whose payload nobody has staged, and what each of them leaves in the ring.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "support/attached_tracer.hpp"
#include "support/skip.hpp"

namespace leat::test {

class UnstagedPayloads : public testing::Test {
  protected:
    explicit UnstagedPayloads(Writer writer) : writer_(writer) {
        if (writer_ == Writer::kOfThread) tracer_.do_without_rseq();
    }
    void SetUp() override {
        LEAT_NEEDS(writer_ == Writer::kOfThread || has_rseq(), "rseq");
        emit("first");
        ring_ = tracer_.used_ring();
        ASSERT_NE(ring_, nullptr);
        // Nobody gets there: no record comes long after the one before it, and all headers are short.
        ring_->last_timestamp += 3'600'000'000'000;  // ns
    }

    virtual void emit(const std::string& content) = 0;

    // What the event leaves in the ring, without its header.
    std::string written(const std::string& content) {
        const std::uint64_t begin = ring_->head;
        emit(content);
        const auto* const records =
            reinterpret_cast<const char*>(ring_) + ring::kPageSize;  // NOLINT(*-reinterpret-cast)
        constexpr std::uint64_t kHeader = ring::kCompactHeader.short_size;
        if (ring_->head < begin + kHeader) return "nothing";
        return {records + begin % AttachedTracer::kRingSize + kHeader, ring_->head - begin - kHeader};
    }
    // Nobody reads: all is room again.
    void empty_ring() {
        ring_->tail = ring_->head;
        ring_->limit = ring_->tail + AttachedTracer::kRingSize;
    }

    Writer writer_;
    AttachedTracer tracer_;
    ring::RingHeader* ring_ = nullptr;
};

}  // namespace leat::test
