// In place of a sequence, for architectures that have none: no CPU owns a ring here, so there is none to write to.
//
// Freestanding: part of the tracer library.
#include "ring/rseq_writer.hpp"

namespace leat::ring {

static_assert(!kHasSequence);

WriteOutcome leat_rseq_write(RecordWriter* /*writer*/, EventKey /*event*/, const uint32_t* /*word*/,
                             const void* /*payload*/, uint64_t /*size*/, uint32_t /*expected*/) {
    return WriteOutcome::kNoRing;
}

}  // namespace leat::ring
