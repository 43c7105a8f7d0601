// In place of write_ARCH.S, for architectures that have no sequence: threads own their rings, so all is written with
// care.
#include <stddef.h>

#include "leat/abi.h"
#include "ring/rseq_writer.hpp"
#include "tracer/write.hpp"

using namespace leat;

static_assert(!ring::kHasSequence);

void leat_write(const leat_tracepoint* tracepoint, const void* ip, size_t /*hidden*/, void* payload, size_t size) {
    leat_payload_not_written(tracepoint, ip, ring::WriteOutcome::kNoRing, payload, size);
}

void leat_write_text(const leat_tracepoint* tracepoint, const void* ip, const leat_text_payload* payload) {
    const auto& text = *reinterpret_cast<const ring::TextPayload*>(payload);  // NOLINT(*-reinterpret-cast)
    leat_text_not_written(tracepoint, ip, ring::WriteOutcome::kNoRing, &text, text.least_size());
}
