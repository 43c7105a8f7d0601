/* A payload is put together on the stack of the site, packed, before it is written in one go.
 *
 * Generated code uses this; programs do not. */
#ifndef LEAT_STAGE_H
#define LEAT_STAGE_H

#include <leat/abi.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_stage {
    char* payload;
    char memory[LEAT_STAGE_HEADROOM + LEAT_STAGE_SMALL + LEAT_STAGE_SLACK] __attribute__((aligned(16)));
};

/* Where a payload of `size` bytes goes; NULL: there is no room, and the event is counted as discarded. */
static inline __attribute__((always_inline)) char* leat_stage_begin(struct leat_stage* stage,
                                                                    struct leat_tracepoint* tracepoint, size_t size) {
    if (size <= LEAT_STAGE_SMALL)
        stage->payload = stage->memory + LEAT_STAGE_HEADROOM;
    else
        stage->payload = (char*)leat_stage_large(tracepoint, size);
    return stage->payload;
}

static inline __attribute__((always_inline)) void leat_stage_end(struct leat_stage* stage,
                                                                 struct leat_tracepoint* tracepoint, size_t size) {
    if (size <= LEAT_STAGE_SMALL)
        leat_write(tracepoint, stage->payload, size);
    else
        leat_write_large(tracepoint, stage->payload, size);
}

static inline __attribute__((always_inline)) char* leat_store(char* at, const void* from, size_t size) {
    if (from == NULL)
        memset(at, 0, size); /* an array that is not there */
    else
        memcpy(at, from, size);
    return at + size;
}

static inline __attribute__((always_inline)) const char* leat_no_null(const char* chars) {
    return chars == NULL ? "(null)" : chars;
}

/* A string that another thread made shorter since it was measured would end early and shift all that follows: what is
 * missing is filled with '#'. */
static inline __attribute__((always_inline)) char* leat_store_string(char* at, const char* chars, size_t length) {
    memcpy(at, chars, length);
    char* end = (char*)memchr(at, 0, length);
    if (__builtin_expect(end != NULL, 0)) memset(end, '#', (size_t)(at + length - end));
    at[length] = '\0';
    return at + length + 1;
}

/* Saturates: a length that makes no sense ends as "too large", never as a small number. */
static inline __attribute__((always_inline)) size_t leat_add_sequence(size_t size, size_t length_size, size_t length,
                                                                      size_t element_size) {
    size_t bytes;
    if (__builtin_mul_overflow(length, element_size, &bytes) || __builtin_add_overflow(bytes, length_size, &bytes) ||
        __builtin_add_overflow(bytes, size, &bytes))
        return SIZE_MAX;
    return bytes;
}

#ifdef __cplusplus
}
#endif

#endif
