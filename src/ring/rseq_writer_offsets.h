/* What rseq_sequence_x86_64.inc knows of C++'s structs: offsets of members in bytes, sizes and values.
 *
 * Only the assembler includes this, and rseq_writer_offsets.cpp, which compares each number with what it stands for. So
 * the names need no prefix. */
#pragma once

/* The kernel's struct rseq, at thread pointer + RingMap.rseq_offset */
#define RSEQ_CPU_ID 4
#define RSEQ_CS 8
#define RSEQ_SIGNATURE 0x53053053

#define MAP_RINGS 0
#define MAP_MASK 8
#define MAP_CLOCK 16
#define MAP_RSEQ_OFFSET 24
#define MAP_CPU_RING_COUNT 32
#define MAP_GAP_LIMIT 40
#define MAP_TIMESTAMP_FACTOR 48
#define MAP_TIME_MASK 56
#define MAP_SHORT_SIZE 64
#define MAP_TAG 72
#define MAP_TAG_SIZE 76
#define MAP_EXTENDED_SIZE 78
#define MAP_BLOCK_SIZE 80
#define MAP_BLOCK_FACTOR 88

/* RecordWriter, which begins with its RingMap */
#define WRITER_CONTEXT_SIZE 96
#define WRITER_SYSTEM_TIME 104
#define WRITER_CHANNEL 112
#define WRITER_READY_KEY 120
#define WRITER_ACTIONS 128
#define WRITER_OTHERS 136
#define WRITER_SECOND_LIST 140
#define WRITER_CLOCK_GENERATION 144
#define WRITER_CLOCK_FACTOR 152
#define WRITER_CLOCK_TSC_BASE 160
#define WRITER_CLOCK_NS_BASE 168
#define WRITER_CONTEXTS 176
#define CONTEXT_ROOM 32

/* TextPayload */
#define TEXT_CHARS 0
#define TEXT_HEAD 8
#define TEXT_TAIL 24
#define PART_SIZE 8 /* behind its address */
#define TEXT_MAX 4096

#define RING_HEAD 0
#define RING_LAST_TIMESTAMP 8
#define RING_DISCARDED 16
#define RING_NEXT_HEAD 80
#define RING_NEXT_RECORDS 88
#define RING_LIMIT 136
#define RING_BLOCKS 1024
#define RING_RECORDS 4096
#define COPY_SLACK 32

/* BlockNote */
#define BLOCK_NOTES 64
#define NOTE_SIZE_LOG2 5
#define NOTE_POSITION 0
#define NOTE_TIMESTAMP 8
#define NOTE_RECORDS 16
#define NOTE_DISCARDED 24

/* One load gets generation and source, which lie in the same 8 bytes. The source's lowest bit is 0 for the TSC. */
#define CLOCK_GENERATION 64
#define CLOCK_SOURCE_BIT 32
#define CLOCK_LINES 128
#define LINE_SIZE_LOG2 5
#define LINE_TSC_BASE 0
#define LINE_NS_BASE 8
#define LINE_MULTIPLIER 16

/* WriteOutcome */
#define OUTCOME_NO_ROOM 1
#define OUTCOME_NO_RING 2
#define OUTCOME_CHANGED 3
#define OUTCOME_NO_TIME 4
