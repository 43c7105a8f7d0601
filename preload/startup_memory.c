#include "startup_memory.h"

#include <errno.h>

enum { kMinAlignment = 16 };

/* Lies in front of every block. */
struct block_header {
    size_t size;
};
_Static_assert(sizeof(struct block_header) <= kMinAlignment, "a block begins within its alignment of the one before");

char startup_memory[kStartupMemorySize] __attribute__((aligned(4096)));
static size_t used;

static struct block_header* header_of(const void* block) {
    return (struct block_header*)((uintptr_t)block - sizeof(struct block_header));
}

void* startup_allocate(size_t alignment, size_t size) {
    if (alignment < kMinAlignment) alignment = kMinAlignment;
    size_t begin = __atomic_load_n(&used, __ATOMIC_RELAXED);
    size_t at;
    do {
        const uintptr_t lowest = (uintptr_t)startup_memory + begin + sizeof(struct block_header);
        at = ((lowest + alignment - 1) & ~(uintptr_t)(alignment - 1)) - (uintptr_t)startup_memory;
        if (alignment > kStartupMemorySize || at > kStartupMemorySize || size > kStartupMemorySize - at) {
            errno = ENOMEM;
            return NULL;
        }
    } while (!__atomic_compare_exchange_n(&used, &begin, at + size, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    header_of(startup_memory + at)->size = size;
    return startup_memory + at;
}

size_t startup_block_size(const void* block) { return header_of(block)->size; }
