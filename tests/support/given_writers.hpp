// The sequences of leat_write_text and leat_write_words, for tests that have rings but no tracepoints: as
// leat_rseq_write.
#pragma once

#include <cstdint>

#include "ring/rseq_writer.hpp"

namespace leat::test {

extern "C" ring::WriteOutcome leat_rseq_write_text(ring::RecordWriter* writer, ring::EventKey event,
                                                   const std::uint32_t* word, const ring::TextPayload* payload,
                                                   std::uint64_t least_size, std::uint32_t expected);
// `unused` leaves a register alone, for all to have their arguments in the same ones.
extern "C" ring::WriteOutcome leat_rseq_write_words(ring::RecordWriter* writer, ring::EventKey event,
                                                    const std::uint32_t* word, const void* unused, std::uint64_t size,
                                                    std::uint32_t expected, ring::PayloadWords payload);

}  // namespace leat::test
