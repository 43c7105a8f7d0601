// The sequences of leat_write_text and its kind, for tests that have rings but no tracepoints: as leat_rseq_write.
#pragma once

#include <cstdint>
#include <string_view>

#include "ring/rseq_writer.hpp"

namespace leat::test {

extern "C" ring::WriteOutcome leat_rseq_write_text(ring::RecordWriter* writer, ring::EventKey event,
                                                   const std::uint32_t* word, const ring::TextPayload* payload,
                                                   std::uint64_t least_size, std::uint32_t expected);
// `unused` leaves a register alone, for all to have their arguments in the same ones.
extern "C" ring::WriteOutcome leat_rseq_write_words(ring::RecordWriter* writer, ring::EventKey event,
                                                    const std::uint32_t* word, const void* unused, std::uint64_t size,
                                                    std::uint32_t expected, ring::PayloadWords payload);
extern "C" ring::WriteOutcome leat_rseq_write_text_words(ring::RecordWriter* writer, ring::EventKey event,
                                                         const std::uint32_t* word, const char* text,
                                                         std::uint64_t least_size, std::uint32_t expected,
                                                         ring::PayloadWords head, ring::PayloadWords tail,
                                                         std::uint64_t head_size);

// Of at most 16 bytes.
inline ring::PayloadWords words_of(std::string_view bytes) {
    ring::PayloadWords words{};
    bytes.copy(reinterpret_cast<char*>(&words), sizeof words);  // NOLINT(*-reinterpret-cast)
    return words;
}

}  // namespace leat::test
