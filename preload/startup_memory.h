/* Memory for allocations before malloc has been found: by the dynamic loader, or by dlsym() while it looks for malloc.
 *
 * A fixed piece of the library's own, handed out once and never taken back. Any thread; async-signal-safe. */
#ifndef LEAT_PRELOAD_STARTUP_MEMORY_H
#define LEAT_PRELOAD_STARTUP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { kStartupMemorySize = 64 * 1024 };
extern char startup_memory[kStartupMemorySize] __attribute__((visibility("hidden")));

/* Returns zeroed memory. `alignment` is a power of two. When nothing is left, returns NULL and sets errno to ENOMEM. */
void* startup_allocate(size_t alignment, size_t size);

/* Whether `block` came from here: then malloc's functions know nothing of it. */
static inline bool is_startup_memory(const void* block) {
    return (uintptr_t)block - (uintptr_t)startup_memory < kStartupMemorySize;
}

/* The size with which such a block was allocated. */
size_t startup_block_size(const void* block);

#endif
