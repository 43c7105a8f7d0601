/* What rseq_writer_x86_64.S knows of C++'s structs: offsets of members in bytes, sizes and values.
 *
 * Only the assembler includes this, and rseq_writer_offsets.cpp, which compares each number with what it stands for. So
 * the names need no prefix. */
#pragma once

/* The kernel's struct rseq, at thread pointer + RingMap.rseq_offset */
#define RSEQ_CPU_ID 4
#define RSEQ_CS 8
#define RSEQ_SIGNATURE 0x53053053

#define MAP_BASE 0
#define MAP_STRIDE 8
#define MAP_MASK 16
#define MAP_CLOCK 24
#define MAP_RSEQ_OFFSET 32
#define MAP_CPU_RING_COUNT 40
#define MAP_GAP_LIMIT 48
#define MAP_TIMESTAMP_FACTOR 56
#define MAP_SHORT_SIZE 64
#define MAP_TAG 72
#define MAP_TAG_SIZE 80

/* RecordWriter, which begins with its RingMap */
#define WRITER_CONTEXT_SIZE 88
#define WRITER_SYSTEM_TIME 96
#define WRITER_NOT_WRITTEN 104
#define WRITER_CHANNEL 112
#define WRITER_CONTEXTS 128
#define CONTEXT_ROOM 32

#define EXTENDED_ID_SIZE 4
#define EXTENDED_TAIL 12

#define RING_HEAD 0
#define RING_LAST_TIMESTAMP 8
#define RING_NEXT_HEAD 80
#define RING_NEXT_RECORDS 88
#define RING_LIMIT 136
#define RING_RECORDS 4096
#define COPY_SLACK 32

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
