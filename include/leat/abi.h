/* The border between programs that carry tracepoints and libleat: compiled into programs, so it only ever grows.
 *
 * Programs use <leat/tracepoint.h> (C and C++) or <leat/event.hpp> (C++), not this. */
#ifndef LEAT_ABI_H
#define LEAT_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LEAT_ABI_VERSION 3

#define LEAT_EXPORT __attribute__((__visibility__("default")))

/* What a field holds, and how often. */
enum leat_shape {
    LEAT_SHAPE_SCALAR = 0,       /* one element */
    LEAT_SHAPE_ARRAY = 1,        /* `count` elements */
    LEAT_SHAPE_SEQUENCE = 2,     /* a length of `length_size` bytes, then that many elements */
    LEAT_SHAPE_STRING = 3,       /* bytes up to and including a NUL */
    LEAT_SHAPE_TEXT_ARRAY = 4,   /* `count` bytes of UTF-8; a viewer stops at the first NUL */
    LEAT_SHAPE_TEXT_SEQUENCE = 5 /* a length of `length_size` bytes, then that many bytes of UTF-8 */
};

enum leat_element { LEAT_ELEMENT_INTEGER = 0, LEAT_ELEMENT_FLOAT = 1, LEAT_ELEMENT_ENUM = 2 };

enum leat_field_flags {
    LEAT_FIELD_SIGNED = 1,
    LEAT_FIELD_HEX = 2,    /* shown in base 16 */
    LEAT_FIELD_NETWORK = 4 /* its bytes are big-endian */
};

enum leat_value_flags { LEAT_VALUE_AUTO = 1 /* one more than the value before; low and high are ignored */ };

/* One label of an enumeration: covers low ... high, both included. */
struct leat_value {
    const char* label;
    int64_t low;
    int64_t high;
    uint32_t flags;
};

struct leat_enumeration {
    const char* name;
    const struct leat_value* values;
    uint32_t value_count;
};

struct leat_field {
    const char* name;
    const struct leat_enumeration* enumeration; /* of LEAT_ELEMENT_ENUM, else NULL */
    uint32_t count;                             /* elements of an array */
    uint8_t shape;                              /* enum leat_shape */
    uint8_t element;                            /* enum leat_element */
    uint8_t element_size;                       /* bytes: 1, 2, 4 or 8 */
    uint8_t flags;                              /* enum leat_field_flags */
    uint8_t length_size;                        /* bytes of a sequence's length: 1, 2, 4 or 8 */
    uint8_t is_hidden;                          /* 1: not written; its bytes are staged after those of written fields */
};

enum leat_tracepoint_flags { LEAT_TRACEPOINT_STICKY = 1 /* its values are kept: <leat/sticky.h> */ };

/* One tracepoint. Static, and in place before its library's constructors run.
 *
 *     nobody traces the process    word -> off, which is always 0
 *     registered                   word -> memory that libleat shares with daemons: they switch the tracepoint there
 *
 * libleat writes `word`, and nothing else. A site reads what it points to: 0 is off. It also reads `probes`, in which
 * kernel or debugger count the tools that want the event's probe, see <leat/sdt.h>. */
struct leat_tracepoint {
    const uint32_t* word;
    uint32_t off;
    uint32_t probes; /* the lower half */
    const char* name;
    const char* file;
    const char* uri; /* of the event's model (CTF: model.emf.uri), or NULL */
    const struct leat_field* fields;
    uint32_t field_count;
    int32_t log_level; /* 0 to 14, see <leat/tracepoint.h> */
    uint32_t flags;    /* enum leat_tracepoint_flags */
    uint32_t line;
    void* reserved[2];
};

/* The tracepoints of one program or shared library. Its first two members are the same in all versions: libleat leaves
 * modules of another version alone, and tells whoever records. */
struct leat_module {
    uint32_t abi_version;
    uint32_t is_registered; /* libleat's */
    struct leat_tracepoint* const* begin;
    struct leat_tracepoint* const* end; /* entries may be NULL or repeated */
    void* registration;                 /* libleat's */
    void* reserved[3];
};

/* Called by constructors and destructors that the headers generate. Repeated calls do nothing. Preserve errno.
 * Not async-signal-safe: they run where dlopen and dlclose run. */
LEAT_EXPORT void leat_module_load(struct leat_module* module);
LEAT_EXPORT void leat_module_unload(struct leat_module* module);

/* A payload is staged in memory before it is written: its bytes, and LEAT_STAGE_SLACK bytes that libleat may read,
 * whatever they hold. Contexts are libleat's business, and need no room here. */
#define LEAT_STAGE_SLACK 32
#define LEAT_STAGE_SMALL 512 /* payloads up to this size are staged on the stack of the site */

/* Calls the functions below without lazy binding: faster, and nothing is resolved inside a signal handler. */
#if defined(__has_attribute)
#if __has_attribute(__noplt__)
#define LEAT_NO_PLT __attribute__((__noplt__))
#endif
#endif
#ifndef LEAT_NO_PLT
#define LEAT_NO_PLT
#endif

/* Writes the records of an enabled tracepoint, one into each channel that wants it, or counts them as discarded.
 * `payload` has at most LEAT_STAGE_SMALL bytes, and slack as said above: `size` bytes that are written, then `hidden`
 * bytes of fields that are not, but that may decide whether the event is. `ip` is an address in the code of the site,
 * for the context of that name. Any thread; async-signal-safe; neither allocates, locks nor waits; preserves errno. */
LEAT_EXPORT LEAT_NO_PLT void leat_write(const struct leat_tracepoint* tracepoint, const void* ip, size_t hidden,
                                        void* payload, size_t size);

#if defined(__has_feature)
#if __has_feature(memory_sanitizer) && !defined(LEAT_NO_WORDS)
#define LEAT_NO_WORDS /* it would want each byte of an array to be set */
#endif
#endif

/* The same for a payload of at most 16 bytes, in a register: it is not stored twice. What is behind its `size` bytes
 * does not matter. Where there are such registers: a program that has LEAT_NO_WORDS defined uses libleat as if there
 * were none. */
#if defined(__x86_64__) && defined(__SSE2__) && !defined(LEAT_NO_WORDS)
#define LEAT_HAS_WORDS
typedef uint64_t leat_words __attribute__((__vector_size__(16)));
LEAT_EXPORT LEAT_NO_PLT void leat_write_words(const struct leat_tracepoint* tracepoint, const void* ip,
                                              leat_words payload, size_t size);
#endif

/* A payload with one text, which is written up to its NUL: {head, text, tail}. Head and tail have at most
 * LEAT_TEXT_PART_SIZE bytes each, and slack as said above. */
#define LEAT_TEXT_PART_SIZE 200
struct leat_text_payload {
    const char* text;
    const void* head;
    uint64_t head_size;
    const void* tail;
    uint64_t tail_size;
};

/* As leat_write, for a payload that nobody has put together: the text goes straight to where it is recorded. */
LEAT_EXPORT LEAT_NO_PLT void leat_write_text(const struct leat_tracepoint* tracepoint, const void* ip,
                                             const struct leat_text_payload* payload);
#if defined(LEAT_HAS_WORDS)
/* The same where head and tail have at most 16 bytes each, in registers. `size`: in bytes, with an empty text. */
LEAT_EXPORT LEAT_NO_PLT void leat_write_text_words(const struct leat_tracepoint* tracepoint, const void* ip,
                                                   const char* text, size_t head_size, size_t size, leat_words head,
                                                   leat_words tail);
#endif

/* Returns memory to stage a payload larger than LEAT_STAGE_SMALL; NULL (and counts the event as discarded) if there is
 * none. Pass it to leat_write_large, which gives it back. Any thread; async-signal-safe. */
LEAT_EXPORT void* leat_stage_large(const struct leat_tracepoint* tracepoint, size_t size);
LEAT_EXPORT void leat_write_large(const struct leat_tracepoint* tracepoint, const void* ip, size_t hidden,
                                  void* payload, size_t size);

/* Keeps the payload as the last value of a sticky event for this key; until the next one, or until it is forgotten.
 * A value that is too large, or finds no room, is counted, and that of before is forgotten. Any thread; waits at most
 * some ms for another one that does the same. In a signal handler that has interrupted such a call, nothing is kept,
 * and that is counted. Preserves errno. */
LEAT_EXPORT LEAT_NO_PLT void leat_stick(const struct leat_tracepoint* tracepoint, uint64_t key, const void* payload,
                                        size_t size);
/* Forgets the value that this module's sticky event of that name has for the key. As leat_stick. */
LEAT_EXPORT void leat_unstick(const struct leat_module* module, const char* name, uint64_t key);

#ifdef __cplusplus
}
#endif

#endif
