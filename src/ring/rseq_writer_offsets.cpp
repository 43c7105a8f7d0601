// The assembler's constants are what C++ says: a struct that changes without them does not compile.
//
// Freestanding: part of the tracer library.
#include "ring/rseq_writer_offsets.h"

#include <linux/rseq.h>
#include <stddef.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#include "ring/rseq_writer.hpp"

namespace leat::ring {
namespace {

static_assert(offsetof(struct rseq, cpu_id) == RSEQ_CPU_ID && offsetof(struct rseq, rseq_cs) == RSEQ_CS);
#if defined(RSEQ_SIG)
static_assert(RSEQ_SIG == RSEQ_SIGNATURE);  // glibc registers each thread with it
#endif

static_assert(offsetof(RingMap, rings) == MAP_RINGS && sizeof(RingHeader*) == 8);
static_assert(offsetof(RingMap, mask) == MAP_MASK);
static_assert(offsetof(RingMap, clock) == MAP_CLOCK);
static_assert(offsetof(RingMap, rseq_offset) == MAP_RSEQ_OFFSET);
static_assert(offsetof(RingMap, cpu_ring_count) == MAP_CPU_RING_COUNT);

static_assert(offsetof(RingMap, form) + offsetof(HeaderForm, gap_limit) == MAP_GAP_LIMIT);
static_assert(offsetof(RingMap, form) + offsetof(HeaderForm, timestamp_factor) == MAP_TIMESTAMP_FACTOR);
static_assert(offsetof(RingMap, form) + offsetof(HeaderForm, time_mask) == MAP_TIME_MASK);
static_assert(offsetof(RingMap, form) + offsetof(HeaderForm, short_size) == MAP_SHORT_SIZE);
static_assert(offsetof(RingMap, form) + offsetof(HeaderForm, tag) == MAP_TAG);
static_assert(offsetof(RingMap, form) + offsetof(HeaderForm, tag_size) == MAP_TAG_SIZE);
static_assert(offsetof(RingMap, form) + offsetof(HeaderForm, extended_size) == MAP_EXTENDED_SIZE);
static_assert(sizeof(HeaderForm::tag) == 4 && kExtendedIdSize == 4);
static_assert(sizeof(HeaderForm::tag_size) == 2 && sizeof(HeaderForm::extended_size) == 2);
static_assert(offsetof(RingMap, block_size) == MAP_BLOCK_SIZE);
static_assert(offsetof(RingMap, block_factor) == MAP_BLOCK_FACTOR);
static_assert(offsetof(RecordWriter, map) == 0 && offsetof(RecordWriter, context_size) == WRITER_CONTEXT_SIZE);
static_assert(offsetof(RecordWriter, system_time) == WRITER_SYSTEM_TIME);
static_assert(offsetof(RecordWriter, channel) == WRITER_CHANNEL && channel_of(event_key(5, 6)) == 5);
static_assert(offsetof(RecordWriter, owners) + offsetof(OwnersPart, others) == WRITER_OTHERS);
static_assert(offsetof(RecordWriter, owners) + offsetof(OwnersPart, ready_key) == WRITER_READY_KEY);
static_assert(offsetof(RecordWriter, owners) + offsetof(OwnersPart, actions) == WRITER_ACTIONS);
static_assert(offsetof(RecordWriter, owners) + offsetof(OwnersPart, second_list) == WRITER_SECOND_LIST);
static_assert(offsetof(RecordWriter, clock_line) + offsetof(WriterClock, generation) == WRITER_CLOCK_GENERATION);
static_assert(offsetof(RecordWriter, clock_line) + offsetof(WriterClock, factor) == WRITER_CLOCK_FACTOR);
static_assert(offsetof(RecordWriter, clock_line) + offsetof(WriterClock, tsc_base) == WRITER_CLOCK_TSC_BASE);
static_assert(offsetof(RecordWriter, clock_line) + offsetof(WriterClock, ns_base) == WRITER_CLOCK_NS_BASE);
static_assert(offsetof(TextPayload, chars) == TEXT_CHARS && kMaxText == TEXT_MAX);
static_assert(offsetof(TextPayload, head) == TEXT_HEAD && offsetof(TextPayload, head_size) == TEXT_HEAD + PART_SIZE);
static_assert(offsetof(TextPayload, tail) == TEXT_TAIL && offsetof(TextPayload, tail_size) == TEXT_TAIL + PART_SIZE);
static_assert(offsetof(RecordWriter, contexts) == WRITER_CONTEXTS && kContextRoom == CONTEXT_ROOM);
// Short form and tag are stored as 8 bytes, whatever their size; what follows goes over the rest.
static_assert(kCompactHeader.short_size <= 8 && kLargeHeader.short_size <= 8 && kMaxHeaderSize <= kCopySlack);
// The first block of contexts is copied whole, wherever it ends.
static_assert(kContextRoom <= kCopySlack);
// Two words are stored, however few bytes count.
static_assert(sizeof(PayloadWords) <= kCopySlack);

static_assert(offsetof(RingHeader, head) == RING_HEAD);
static_assert(offsetof(RingHeader, last_timestamp) == RING_LAST_TIMESTAMP);
static_assert(offsetof(RingHeader, discarded) == RING_DISCARDED);
static_assert(offsetof(RingHeader, discarded) + sizeof(RingHeader::discarded) == RING_NEXT_HEAD);
static_assert(offsetof(RingHeader, next_head) == RING_NEXT_HEAD);
static_assert(offsetof(RingHeader, next_records) == RING_NEXT_RECORDS);
static_assert(offsetof(RingHeader, limit) == RING_LIMIT && offsetof(RingHeader, blocks) == RING_BLOCKS);
static_assert(kBlockNotes == BLOCK_NOTES && sizeof(BlockNote) == 1U << NOTE_SIZE_LOG2);
static_assert(offsetof(BlockNote, position) == NOTE_POSITION && offsetof(BlockNote, timestamp) == NOTE_TIMESTAMP);
static_assert(offsetof(BlockNote, records) == NOTE_RECORDS && offsetof(BlockNote, discarded) == NOTE_DISCARDED);
static_assert(kPageSize == RING_RECORDS && kCopySlack == COPY_SLACK);

static_assert(offsetof(ClockPage, generation) == CLOCK_GENERATION && CLOCK_GENERATION % 8 == 0);
static_assert(offsetof(ClockPage, source) == CLOCK_GENERATION + CLOCK_SOURCE_BIT / 8);
static_assert(static_cast<uint32_t>(ClockSource::kTsc) == 0 && static_cast<uint32_t>(ClockSource::kSystem) == 1);
static_assert(offsetof(ClockPage, lines) == CLOCK_LINES && sizeof(ClockLine) == 1U << LINE_SIZE_LOG2);
static_assert(offsetof(ClockLine, tsc_base) == LINE_TSC_BASE);
static_assert(offsetof(ClockLine, ns_base) == LINE_NS_BASE);
static_assert(offsetof(ClockLine, multiplier) == LINE_MULTIPLIER);

static_assert(static_cast<uint32_t>(WriteOutcome::kWritten) == 0);
static_assert(static_cast<uint32_t>(WriteOutcome::kNoRoom) == OUTCOME_NO_ROOM);
static_assert(static_cast<uint32_t>(WriteOutcome::kNoRing) == OUTCOME_NO_RING);
static_assert(static_cast<uint32_t>(WriteOutcome::kChanged) == OUTCOME_CHANGED);
static_assert(static_cast<uint32_t>(WriteOutcome::kNoTime) == OUTCOME_NO_TIME);

}  // namespace
}  // namespace leat::ring
