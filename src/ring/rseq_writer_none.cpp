// In place of a sequence, for architectures that have none: no CPU owns a ring here, so there is none to write to.
//
// Freestanding: part of the tracer library.
#include "ring/rseq_writer.hpp"

namespace leat::ring {

static_assert(!kHasSequence);

WriteOutcome leat_rseq_write(RecordWriter* writer, EventKey event, const uint32_t* word, const void* payload,
                             uint64_t size, uint32_t /*expected*/) {
    if (writer->not_written == nullptr) return WriteOutcome::kNoRing;
    return writer->not_written(writer, event, word, payload, size, WriteOutcome::kNoRing);
}

WriteOutcome leat_rseq_write_text(RecordWriter* writer, EventKey event, const uint32_t* word,
                                  const TextPayload* payload, uint64_t least_size, uint32_t /*expected*/) {
    if (writer->text_not_written == nullptr) return WriteOutcome::kNoRing;
    return writer->text_not_written(writer, event, word, payload, least_size, WriteOutcome::kNoRing);
}

WriteOutcome leat_rseq_write_words(RecordWriter* writer, EventKey event, const uint32_t* word, const void* unused,
                                   uint64_t size, uint32_t /*expected*/, PayloadWords payload) {
    if (writer->words_not_written == nullptr) return WriteOutcome::kNoRing;
    return writer->words_not_written(writer, event, word, unused, size, WriteOutcome::kNoRing, payload);
}

}  // namespace leat::ring
