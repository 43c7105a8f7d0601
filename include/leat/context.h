/* Contexts of the application: values that a program gives beside each of its events, such as the number of the request
 * that a thread works on. For C11 and C++17.
 *
 *     static _Thread_local uint64_t request;
 *     LEAT_CONTEXT(shop, request, uint64, request)
 *     ...
 *     leat_context_provide(&leat_context_shop_request);
 *
 * They are recorded where people ask for them: leat add-context '$app.shop:request'. Events of programs that do not
 * provide a context say so. Elsewhere, they cost nothing. */
#ifndef LEAT_CONTEXT_H
#define LEAT_CONTEXT_H

#include <leat/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a value is. Each event may have another kind. */
enum leat_context_kind {
    LEAT_CONTEXT_NONE = 0,
    LEAT_CONTEXT_INT64 = 1,
    LEAT_CONTEXT_UINT64 = 2,
    LEAT_CONTEXT_DOUBLE = 3,
    LEAT_CONTEXT_STRING = 4 /* UTF-8, up to a NUL; what is beyond LEAT_CONTEXT_STRING_MAX bytes is cut off */
};
#define LEAT_CONTEXT_STRING_MAX 63

struct leat_context_value {
    uint32_t kind;
    union {
        int64_t int64;
        uint64_t uint64;
        double number;
        const char* string; /* NULL: none. Read before the next event of this thread */
    } as;
};

/* A context, which stays as it is while it is provided. `get` is called for each event that is recorded with it, by the
 * thread that emits, also in signal handlers and in children of vfork: it must be async-signal-safe. The value is NONE
 * until it sets one. Events that it emits itself have no contexts of the application. */
struct leat_context {
    const char* name; /* PROVIDER:NAME, of ASCII letters, digits and underscores; shorter than 64 bytes */
    void (*get)(const struct leat_context* context, struct leat_context_value* value);
    void* data; /* for `get` */
};

/* From now on, events have this context where it is recorded. In place of another one of its name. Returns 0; -1 if
 * the name is none, or the process has had 64 names. Any thread; not async-signal-safe. */
LEAT_EXPORT int leat_context_provide(const struct leat_context* context);
/* Events have it no more, unless another one has taken its place. Does not wait for threads that are in `get`: memory
 * or code may go away when none of them can emit. Any thread; not async-signal-safe. */
LEAT_EXPORT void leat_context_withdraw(const struct leat_context* context);

/* For `get`: gives the value. */
static inline void leat_context_set_int64(struct leat_context_value* value, int64_t number) {
    value->kind = LEAT_CONTEXT_INT64;
    value->as.int64 = number;
}
static inline void leat_context_set_uint64(struct leat_context_value* value, uint64_t number) {
    value->kind = LEAT_CONTEXT_UINT64;
    value->as.uint64 = number;
}
static inline void leat_context_set_double(struct leat_context_value* value, double number) {
    value->kind = LEAT_CONTEXT_DOUBLE;
    value->as.number = number;
}
static inline void leat_context_set_string(struct leat_context_value* value, const char* text) {
    value->kind = text == NULL ? LEAT_CONTEXT_NONE : LEAT_CONTEXT_STRING;
    value->as.string = text;
}

/* Defines the struct leat_context_PROVIDER_NAME, whose value is that of the expression by then, a thread-local variable
 * for example. KIND: int64, uint64, double or string. */
#define LEAT_CONTEXT(PROVIDER, NAME, KIND, ...)                                                \
    static void leat_get_context_##PROVIDER##_##NAME(const struct leat_context* leat_context_, \
                                                     struct leat_context_value* leat_value_) { \
        (void)leat_context_;                                                                   \
        leat_context_set_##KIND(leat_value_, (__VA_ARGS__));                                   \
    }                                                                                          \
    static const struct leat_context leat_context_##PROVIDER##_##NAME = {#PROVIDER ":" #NAME,  \
                                                                         leat_get_context_##PROVIDER##_##NAME, NULL};

#ifdef __cplusplus
}
#endif

#endif
