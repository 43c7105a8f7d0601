/* What write_x86_64.S knows of C++'s structs, besides ring/rseq_writer_offsets.h: names, and offsets in bytes.
 *
 * Only the assembler includes this, and write_offsets.cpp, which compares each number with what it stands for. */
#pragma once

/* leat::tracer::thread_state, which begins with the writer of its first channel, and leat::tracer::process_page, which
 * begins with the generation */
#define THREAD_STATE _ZN4leat6tracer12thread_stateE
#define PROCESS_PAGE _ZN4leat6tracer12process_pageE

#define NO_KEY -1
#define TRACEPOINT_WORD 0
#define ACTION_SIZE 8
#define ACTION_ID 0
#define ACTION_CHANNEL 4
