/* The malloc family, traced: events, fields and types of LTTng's liblttng-ust-libc-wrapper ([LTTng-2.13], "Helpers").
 *
 * Every function goes on to the one behind it in the loader's search order, glibc's or another allocator's. A program
 * that defines malloc itself never comes here. Like LTTng, we do not trace aligned_alloc, valloc and pvalloc.
 *
 * Any thread, from the loader's first allocation on; in forked children; as async-signal-safe as the function behind
 * ours. */
#include <dlfcn.h>
#include <errno.h>
#include <leat/tracepoint.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include "startup_memory.h"

#define MALLOC_FIELDS(FIELD)           \
    FIELD(integer, size_t, size, size) \
    FIELD(integer_hex, uintptr_t, ptr, ptr)
LEAT_TRACEPOINT(lttng_ust_libc, malloc, LEAT_DEBUG_LINE, MALLOC_FIELDS, size_t size, const void* ptr);

#define FREE_FIELDS(FIELD) FIELD(integer_hex, uintptr_t, ptr, ptr)
LEAT_TRACEPOINT(lttng_ust_libc, free, LEAT_DEBUG_LINE, FREE_FIELDS, const void* ptr);

#define CALLOC_FIELDS(FIELD)             \
    FIELD(integer, size_t, nmemb, nmemb) \
    FIELD(integer, size_t, size, size)   \
    FIELD(integer_hex, uintptr_t, ptr, ptr)
LEAT_TRACEPOINT(lttng_ust_libc, calloc, LEAT_DEBUG_LINE, CALLOC_FIELDS, size_t nmemb, size_t size, const void* ptr);

#define REALLOC_FIELDS(FIELD)                     \
    FIELD(integer_hex, uintptr_t, in_ptr, in_ptr) \
    FIELD(integer, size_t, size, size)            \
    FIELD(integer_hex, uintptr_t, ptr, ptr)
LEAT_TRACEPOINT(lttng_ust_libc, realloc, LEAT_DEBUG_LINE, REALLOC_FIELDS, uintptr_t in_ptr, size_t size,
                const void* ptr);

#define MEMALIGN_FIELDS(FIELD)                   \
    FIELD(integer, size_t, alignment, alignment) \
    FIELD(integer, size_t, size, size)           \
    FIELD(integer_hex, uintptr_t, ptr, ptr)
LEAT_TRACEPOINT(lttng_ust_libc, memalign, LEAT_DEBUG_LINE, MEMALIGN_FIELDS, size_t alignment, size_t size,
                const void* ptr);

#define POSIX_MEMALIGN_FIELDS(FIELD)                \
    FIELD(integer_hex, uintptr_t, out_ptr, out_ptr) \
    FIELD(integer, size_t, alignment, alignment)    \
    FIELD(integer, size_t, size, size)              \
    FIELD(integer, int, result, result)
LEAT_TRACEPOINT(lttng_ust_libc, posix_memalign, LEAT_DEBUG_LINE, POSIX_MEMALIGN_FIELDS, const void* out_ptr,
                size_t alignment, size_t size, int result);

/* These take the place of the functions behind ours, and look for them, until they have been found. */
static void* early_malloc(size_t size);
static void early_free(void* block);
static void* early_calloc(size_t count, size_t size);
static void* early_realloc(void* block, size_t size);
static void* early_memalign(size_t alignment, size_t size);
static int early_posix_memalign(void** block, size_t alignment, size_t size);

static struct {
    void* (*malloc)(size_t);
    void (*free)(void*);
    void* (*calloc)(size_t, size_t);
    void* (*realloc)(void*, size_t);
    void* (*memalign)(size_t, size_t);
    int (*posix_memalign)(void**, size_t, size_t);
} next = {early_malloc, early_free, early_calloc, early_realloc, early_memalign, early_posix_memalign};

#define FIND_NEXT(name) void* const next_##name = dlsym(RTLD_NEXT, #name)
#define SET_NEXT(name) \
    if (next_##name != NULL) __atomic_store_n((void**)&next.name, next_##name, __ATOMIC_RELAXED)

/* Two threads may do this at once: both find the same. If dlsym() allocates, it comes here again, in the same thread,
 * and gets start-up memory. All are looked for before one is used: what is allocated in between is of one kind. */
static void find_next(void) {
    static _Thread_local bool is_finding __attribute__((tls_model("initial-exec")));
    if (is_finding) return;
    is_finding = true;
    const int saved_errno = errno;
    FIND_NEXT(malloc);
    FIND_NEXT(free);
    FIND_NEXT(calloc);
    FIND_NEXT(realloc);
    FIND_NEXT(memalign);
    FIND_NEXT(posix_memalign);
    SET_NEXT(malloc);
    SET_NEXT(free);
    SET_NEXT(calloc);
    SET_NEXT(realloc);
    SET_NEXT(memalign);
    SET_NEXT(posix_memalign);
    errno = saved_errno;
    is_finding = false;
}

static __attribute__((constructor(101))) void find_next_at_load(void) { find_next(); }

static void* early_malloc(size_t size) {
    find_next();
    return next.malloc == early_malloc ? startup_allocate(1, size) : next.malloc(size);
}

static void early_free(void* block) {
    find_next();
    if (next.free != early_free) next.free(block);
}

static void* early_calloc(size_t count, size_t size) {
    find_next();
    if (next.calloc != early_calloc) return next.calloc(count, size);
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return startup_allocate(1, bytes);
}

static void* early_realloc(void* block, size_t size) {
    find_next();
    if (next.realloc != early_realloc) return next.realloc(block, size);
    return block == NULL ? startup_allocate(1, size) : NULL;
}

static void* early_memalign(size_t alignment, size_t size) {
    find_next();
    if (next.memalign != early_memalign) return next.memalign(alignment, size);
    size_t power = 1;
    while (power < alignment && power < SIZE_MAX / 2) power *= 2;
    return startup_allocate(power, size);
}

static int early_posix_memalign(void** block, size_t alignment, size_t size) {
    find_next();
    if (next.posix_memalign != early_posix_memalign) return next.posix_memalign(block, alignment, size);
    if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
    const int saved_errno = errno;
    void* const allocated = startup_allocate(alignment, size);
    errno = saved_errno;
    if (allocated == NULL) return ENOMEM;
    *block = allocated;
    return 0;
}

/* malloc's functions cannot grow a block that is not theirs. */
static __attribute__((noinline, cold)) void* move_from_startup_memory(const void* block, size_t size) {
    if (size == 0) return NULL;
    void* const moved = next.malloc(size);
    const size_t old_size = startup_block_size(block);
    if (moved != NULL) memcpy(moved, block, old_size < size ? old_size : size);
    return moved;
}

LEAT_EXPORT void* malloc(size_t size) {
    void* const block = next.malloc(size);
    leat_tracepoint(lttng_ust_libc, malloc, size, block);
    return block;
}

/* Record the event first: after the call, another thread may already have got the same address. */
LEAT_EXPORT void free(void* block) {
    leat_tracepoint(lttng_ust_libc, free, block);
    if (__builtin_expect(!is_startup_memory(block), 1)) next.free(block);
}

LEAT_EXPORT void* calloc(size_t count, size_t size) {
    void* const block = next.calloc(count, size);
    leat_tracepoint(lttng_ust_libc, calloc, count, size, block);
    return block;
}

LEAT_EXPORT void* realloc(void* block, size_t size) {
    const uintptr_t address = (uintptr_t)block;
    void* const moved = __builtin_expect(!is_startup_memory(block), 1) ? next.realloc(block, size)
                                                                       : move_from_startup_memory(block, size);
    leat_tracepoint(lttng_ust_libc, realloc, address, size, moved);
    return moved;
}

LEAT_EXPORT void* memalign(size_t alignment, size_t size) {
    void* const block = next.memalign(alignment, size);
    leat_tracepoint(lttng_ust_libc, memalign, alignment, size, block);
    return block;
}

LEAT_EXPORT int posix_memalign(void** block, size_t alignment, size_t size) {
    const int result = next.posix_memalign(block, alignment, size);
    leat_tracepoint(lttng_ust_libc, posix_memalign, *block, alignment, size, result);
    return result;
}
