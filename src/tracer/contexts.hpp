// What contexts say of a thread: put together once, and then copied into each of its records.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ring/rseq_writer.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::tracer {

struct Task;

// A writer with room for all contexts:
//
//     | base ... | contexts (32) | more_contexts (112) |
//                | the first block, which the sequence copies whatever there is
//                                | where there are more: blocks of 16 bytes, which may begin anywhere
struct RoomyWriter {
    ring::RecordWriter base;
    char more_contexts[7 * 16];

    void append(const void* value, uint64_t size) {
        char* const contexts = reinterpret_cast<char*>(this) + offsetof(ring::RecordWriter, contexts);  // NOLINT
        memcpy(contexts + base.context_size, value, size);
        base.context_size += size;
    }
    // What is behind the contexts of `other` need not come along.
    void take_over(const RoomyWriter& other) {
        base = other.base;
        base.clock_line = {};
        if (base.context_size > ring::kContextRoom) memcpy(more_contexts, other.more_contexts, sizeof more_contexts);
    }
};
static_assert(offsetof(RoomyWriter, more_contexts) == offsetof(ring::RecordWriter, contexts) + ring::kContextRoom);
// The last block may begin with the last byte.
static_assert(wire::kMaxContextSize + 15 <= ring::kContextRoom + sizeof(RoomyWriter::more_contexts));

// Puts the contexts that a channel's records have for one task, the one that runs, into a writer; not those that differ
// from call to call. Asks the kernel for no others. Async-signal-safe; preserves errno.
void set_contexts(RoomyWriter& writer, uint32_t contexts, const Task& task);

}  // namespace leat::tracer
