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
    char memory[LEAT_STAGE_SMALL + LEAT_STAGE_SLACK] __attribute__((__aligned__(16)));
};

/* Sizes saturate: an impossible size stays SIZE_MAX, whatever is added to it, and the event is counted as too large. If
 * the sum wrapped, many bytes would be copied to a small stage. The compiler still folds constants. */
static inline __attribute__((__always_inline__)) size_t leat_add_size(size_t size, size_t more) {
    size_t sum;
    return __builtin_add_overflow(size, more, &sum) ? SIZE_MAX : sum;
}

static inline __attribute__((__always_inline__)) void leat_swap_sizes(size_t* one, size_t* other) {
    const size_t size = *one;
    *one = *other;
    *other = size;
}

/* Returns where a payload of `size` bytes goes; NULL (and counts the event as discarded) if there is no room. */
static inline __attribute__((__always_inline__)) char* leat_stage_begin(struct leat_stage* stage,
                                                                        const struct leat_tracepoint* tracepoint,
                                                                        size_t size) {
    if (size <= LEAT_STAGE_SMALL) return stage->memory;
    return (char*)leat_stage_large(tracepoint, size);
}

static inline __attribute__((__always_inline__)) uint64_t leat_load_word(const char* from) {
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

#if defined(LEAT_HAS_WORDS)
#define LEAT_FIT_WORDS_(size) (__builtin_constant_p(size) && (size) <= sizeof(leat_words))

/* Numbers were packed by whole words, which the compiler still has in registers: then the stage is not needed. */
static inline __attribute__((__always_inline__)) leat_words leat_to_words(const char* staged, size_t size) {
    leat_words words = {size > 0 ? leat_load_word(staged) : 0,
                        size > sizeof(uint64_t) ? leat_load_word(staged + sizeof(uint64_t)) : 0};
    /* Of an array, some bytes may never have been set: for the compiler, from here on they are like all others. */
    __asm__("" : "+x"(words));
    return words;
}
#endif

static inline __attribute__((__always_inline__)) void leat_stage_end(const struct leat_tracepoint* tracepoint,
                                                                     char* payload, size_t size, const void* ip) {
#if defined(LEAT_HAS_WORDS)
    if (LEAT_FIT_WORDS_(size)) {
        leat_write_words(tracepoint, ip, leat_to_words(payload, size), size);
        return;
    }
#endif
    if (size <= LEAT_STAGE_SMALL)
        leat_write(tracepoint, ip, 0, payload, size);
    else
        leat_write_large(tracepoint, ip, 0, payload, size);
}

/* The same for a payload of `size` bytes that are written, and `hidden` bytes after them that are not. */
static inline __attribute__((__always_inline__)) void leat_stage_end_hidden(const struct leat_tracepoint* tracepoint,
                                                                            char* payload, size_t size, size_t hidden,
                                                                            const void* ip) {
    if (hidden == 0)
        leat_stage_end(tracepoint, payload, size, ip);
    else if (leat_add_size(size, hidden) <= LEAT_STAGE_SMALL)
        leat_write(tracepoint, ip, hidden, payload, size);
    else
        leat_write_large(tracepoint, ip, hidden, payload, size);
}

/* Puts fields together in a register and stores them by whole words, because libleat reads the payload by words right
 * afterwards. If such a word lay in two stores still under way, the processor would wait until both are in its cache:
 * longer than all the rest takes. Where fields are numbers, the compiler works all of this out. Little-endian. */
struct leat_packer {
    char* at;      /* the next word's place */
    uint64_t word; /* its first bytes */
    size_t filled; /* 0 to 7 of them */
};

static inline __attribute__((__always_inline__)) void leat_pack_word(struct leat_packer* packer, uint64_t word) {
    memcpy(packer->at, &word, sizeof word);
}

/* `size` is 1, 2, 4 or 8. */
static inline __attribute__((__always_inline__)) void leat_store_scalar(struct leat_packer* packer, const void* from,
                                                                        size_t size) {
    uint64_t bits = 0;
    memcpy(&bits, from, size);
    const size_t room = sizeof packer->word - packer->filled;
    packer->word |= bits << (8 * packer->filled);
    packer->filled += size;
    if (size < room) return;
    leat_pack_word(packer, packer->word);
    packer->at += sizeof packer->word;
    packer->word = room == sizeof bits ? 0 : bits >> (8 * room);
    packer->filled = size - room;
}

/* Stores the word that is not full yet, and returns where the next byte goes. */
static inline __attribute__((__always_inline__)) char* leat_pack_rest(struct leat_packer* packer) {
    if (packer->filled != 0) leat_pack_word(packer, packer->word);
    packer->at += packer->filled;
    packer->word = 0;
    packer->filled = 0;
    return packer->at;
}

static inline __attribute__((__always_inline__)) void leat_store_bytes(struct leat_packer* packer, const void* from,
                                                                       size_t size) {
    char* at = leat_pack_rest(packer);
    if (from == NULL)
        memset(at, 0, size); /* the array is NULL */
    else
        memcpy(at, from, size);
    packer->at = at + size;
}

static inline __attribute__((__always_inline__)) const char* leat_no_null(const char* chars) {
    return chars == NULL ? "(null)" : chars;
}

/* Returns a text's last, incomplete word, filled up with zeros. */
static inline uint64_t leat_last_word(const char* chars, size_t length) {
    const size_t rest = length % sizeof(uint64_t);
    uint64_t word = 0;
    if (rest != 0 && length > sizeof word) return leat_load_word(chars + length - sizeof word) >> (8 * (8 - rest));
    for (size_t i = 0; i < rest; ++i) word |= (uint64_t)(unsigned char)chars[length - rest + i] << (8 * i);
    return word;
}

/* If one of its bytes is 0, the result and LEAT_ZERO_SEEN_ have a bit in common. */
#define LEAT_ZERO_SEEN_ 0x8080808080808080u
static inline __attribute__((__always_inline__)) uint64_t leat_look_for_zero(uint64_t word) {
    return (word - 0x0101010101010101u) & ~word;
}

static __attribute__((__noinline__, __cold__, __unused__)) void leat_fill_shortened(char* text, size_t length) {
    char* end = (char*)memchr(text, 0, length);
    if (end != NULL) memset(end, '#', (size_t)(text + length - end));
}

/* If another thread has shortened the string since it was measured, it would end early and shift all that follows. So
 * what is missing is filled with '#'. */
static inline void leat_store_string(struct leat_packer* packer, const char* chars, size_t length) {
    char* const text = leat_pack_rest(packer);
    const size_t rest = length % sizeof(uint64_t);
    uint64_t zeros = 0;
    size_t done = 0;
    for (; done + rest < length; done += sizeof(uint64_t)) {
        const uint64_t word = leat_load_word(chars + done);
        zeros |= leat_look_for_zero(word);
        memcpy(text + done, &word, sizeof word);
    }
    const uint64_t last = leat_last_word(chars, length); /* and the NUL */
    zeros |= leat_look_for_zero(last | ~(uint64_t)0 << (8 * rest));
    memcpy(text + done, &last, sizeof last);
    if (__builtin_expect((zeros & LEAT_ZERO_SEEN_) != 0, 0)) leat_fill_shortened(text, length);
    packer->at = text + length + 1;
}

/* A payload with one text is not staged whole:
 *
 *     stage     | head ...       | tail ...       |        libleat records {head, text, tail}
 *                0                LEAT_STAGE_SMALL / 2
 *
 * Ends the head, and begins the tail. */
static inline __attribute__((__always_inline__)) void leat_split_at_text(struct leat_packer* packer,
                                                                         struct leat_text_payload* payload,
                                                                         struct leat_stage* stage, const char* text) {
    (void)leat_pack_rest(packer);
    payload->text = text;
    payload->head = stage->memory;
    payload->tail = packer->at = stage->memory + LEAT_STAGE_SMALL / 2;
}

/* Writes the event, whose tail ends here. The caller has the sizes as constants, which compilers do not always make
 * of the packer's addresses. */
static inline __attribute__((__always_inline__)) void leat_write_split(const struct leat_tracepoint* tracepoint,
                                                                       struct leat_packer* packer,
                                                                       struct leat_text_payload* payload,
                                                                       size_t head_size, size_t tail_size,
                                                                       const void* ip) {
    (void)leat_pack_rest(packer);
#if defined(LEAT_HAS_WORDS)
    if (LEAT_FIT_WORDS_(head_size) && LEAT_FIT_WORDS_(tail_size)) {
        leat_write_text_words(tracepoint, ip, payload->text, head_size, head_size + 1 + tail_size,
                              leat_to_words((const char*)payload->head, head_size),
                              leat_to_words((const char*)payload->tail, tail_size));
        return;
    }
#endif
    payload->head_size = head_size;
    payload->tail_size = tail_size;
    leat_write_text(tracepoint, ip, payload);
}

/* Adds to `size` a length of `length_size` bytes and `length` elements. */
static inline __attribute__((__always_inline__)) size_t leat_add_sequence(size_t size, size_t length_size,
                                                                          uint64_t length, size_t element_size) {
    size_t bytes;
    if (__builtin_mul_overflow(length, element_size, &bytes)) return SIZE_MAX;
    return leat_add_size(size, leat_add_size(length_size, bytes));
}

#ifdef __cplusplus
}
#endif

#endif
