/* Every tracepoint is a USDT probe, too, as those of <sys/sdt.h>: bpftrace, perf, gdb and SystemTap find it by its
 * provider and name in the file of the program or library, and see its fields.
 *
 *     bpftrace -e 'usdt:./server:io:queued { @length = hist(arg1); }'
 *
 * argN is field N, counted from 0, for the first 12: a number, an enumeration's number, or the address of a text, an
 * array or a sequence. A floating field is its bits. Events of a class (LEAT_EVENT_INSTANCE) have the arguments of the
 * call instead, and 0 for those that are no integers or pointers. Characters that no C identifier has are '_'; an event
 * without a colon in its name has the provider "leat"; one whose name has more than 118 characters, no probe (C++).
 *
 * A probe has a counter of who wants it (its "semaphore"), which lies beside the tracepoint's word. A site reads both,
 * and takes one branch: the arguments are evaluated if Leat or such a tool wants the event, and once. The tool's nop
 * lies out of line, behind that branch. If it lay in the straight path instead, it would have to do without arguments,
 * since those are not evaluated there. To read a counter in a line that is at hand costs hardly more than a nop.
 *
 * With LEAT_NO_SDT defined, there are no probes. Only for x86-64.
 *
 * Generated code uses this; programs do not. */
#ifndef LEAT_SDT_H
#define LEAT_SDT_H

#include <leat/abi.h>

#if defined(__x86_64__) && !defined(__ILP32__) && !defined(LEAT_NO_SDT)
#define LEAT_HAS_SDT_

/* True if Leat or a tool that uses probes wants the event. One instruction adds the counter and sets the flags. */
#define LEAT_IS_WANTED_(tracepoint) leat_is_wanted(&(tracepoint))
static inline __attribute__((__always_inline__)) int leat_is_wanted(const struct leat_tracepoint* tracepoint) {
    uint32_t on = __atomic_load_n(__atomic_load_n(&tracepoint->word, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    int is_wanted;
    __asm__ volatile("or{l %[probes], %[on]| %[on], %[probes]}"
                     : [on] "+r"(on), "=@ccnz"(is_wanted)
                     : [probes] "m"(tracepoint->probes));
    return is_wanted;
}

/* Stands for an argument that there is not. */
struct leat_sdt_none {
    char nothing;
};

/* What a debugger is told of an argument: the logarithm of its size, 4 if it is signed; 15: there is none. */
#ifdef __cplusplus
extern "C++" {
template <class T, bool IsEnumeration = __is_enum(T)>
struct leat_sdt_type {
    enum : unsigned long long { kMeta = 3 };
    static constexpr int value(const T&) { return 0; }
};
template <class T>
struct leat_sdt_type<T, true> {
    enum : unsigned long long { kMeta = leat_sdt_type<__underlying_type(T)>::kMeta };
    static constexpr __underlying_type(T) value(T value) { return static_cast<__underlying_type(T)>(value); }
};
template <class T>
struct leat_sdt_type<const T, false> : leat_sdt_type<T> {};
template <class T>
struct leat_sdt_type<const T, true> : leat_sdt_type<T> {};
template <class T>
struct leat_sdt_type<T&, false> : leat_sdt_type<T> {};
template <class T>
struct leat_sdt_type<T*, false> {
    enum : unsigned long long { kMeta = 3 };
    static constexpr T* value(T* value) { return value; }
};
template <>
struct leat_sdt_type<leat_sdt_none, false> {
    enum : unsigned long long { kMeta = 15 };
    static constexpr int value(leat_sdt_none) { return 0; }
};
#define LEAT_SDT_INTEGER_(T, meta)                          \
    template <>                                             \
    struct leat_sdt_type<T, false> {                        \
        enum : unsigned long long { kMeta = (meta) };       \
        static constexpr T value(T value) { return value; } \
    };
LEAT_SDT_INTEGER_(bool, 0)
LEAT_SDT_INTEGER_(char, static_cast<char>(-1) < static_cast<char>(1) ? 4 : 0)
LEAT_SDT_INTEGER_(signed char, 4)
LEAT_SDT_INTEGER_(unsigned char, 0)
LEAT_SDT_INTEGER_(short, 5)
LEAT_SDT_INTEGER_(unsigned short, 1)
LEAT_SDT_INTEGER_(int, 6)
LEAT_SDT_INTEGER_(unsigned, 2)
LEAT_SDT_INTEGER_(long, 7)
LEAT_SDT_INTEGER_(unsigned long, 3)
LEAT_SDT_INTEGER_(long long, 7)
LEAT_SDT_INTEGER_(unsigned long long, 3)
#undef LEAT_SDT_INTEGER_
}
#define LEAT_SDT_META_(x) static_cast<unsigned long long>(leat_sdt_type<__typeof__(x)>::kMeta)
#define LEAT_SDT_VALUE_OF_(x) leat_sdt_type<__typeof__(x)>::value(x)
#define LEAT_SDT_NONE_ \
    leat_sdt_none {}
#else
#define LEAT_SDT_META_(x)                       \
    _Generic((x),                               \
        struct leat_sdt_none: 15ull,            \
        _Bool: 0ull,                            \
        char: (char)-1 < (char)1 ? 4ull : 0ull, \
        signed char: 4ull,                      \
        unsigned char: 0ull,                    \
        short: 5ull,                            \
        unsigned short: 1ull,                   \
        int: 6ull,                              \
        unsigned: 2ull,                         \
        long: 7ull,                             \
        unsigned long: 3ull,                    \
        long long: 7ull,                        \
        unsigned long long: 3ull,               \
        default: 3ull)
/* Integers and their kind have the classes 1 to 4, pointers 5. */
#define LEAT_SDT_VALUE_OF_(x) __builtin_choose_expr(__builtin_classify_type(x) <= 5 && sizeof(x) <= 8, x, 0)
#define LEAT_SDT_NONE_ ((struct leat_sdt_none){0})
#endif

/* The bits of a float or double. */
static inline __attribute__((__always_inline__)) uint64_t leat_sdt_bits(const void* value, size_t size) {
    uint64_t bits = 0;
    __builtin_memcpy(&bits, value, size);
    return bits;
}

/* The probe: a nop, and a note in the file that says where it is, in the format of SystemTap's "stapsdt" notes, version
 * 3 ([stapsdt]). `names`: directives that put both names there, each with its NUL. Its arguments are a text such as
 * "4@%edi -8@%rsi", sizes and places, negative sizes for signed ones. Where ".stapsdt.base" lies tells tools whether
 * the file's addresses were moved afterwards.
 *
 * gcc prints numbers of any size in one form only, negated (%n). */
/* clang-format off */
#define LEAT_SDT_NUMBER_(operand) "(-(%n[" operand "]))"
#define LEAT_SDT_META_TEXT_ LEAT_SDT_NUMBER_("leat_meta")
#define LEAT_SDT_NOTE_(names)                                                                                  \
    "90:\tnop\n"                                                                                               \
    "\t.pushsection .note.stapsdt, \"?\", @note\n"                                                             \
    "\t.balign 4\n"                                                                                            \
    "\t.4byte 92f - 91f, 94f - 93f, 3\n"                                                                       \
    "91:\t.asciz \"stapsdt\"\n"                                                                                \
    "92:\t.balign 4\n"                                                                                         \
    "93:\t.8byte 90b, _.stapsdt.base, %c[leat_probes]\n"                                                       \
    names                                                                                                      \
    LEAT_SDT_ARGUMENT_("0", "") LEAT_SDT_ARGUMENT_("1", " ") LEAT_SDT_ARGUMENT_("2", " ")                      \
    LEAT_SDT_ARGUMENT_("3", " ") LEAT_SDT_ARGUMENT_("4", " ") LEAT_SDT_ARGUMENT_("5", " ")                     \
    LEAT_SDT_ARGUMENT_("6", " ") LEAT_SDT_ARGUMENT_("7", " ") LEAT_SDT_ARGUMENT_("8", " ")                     \
    LEAT_SDT_ARGUMENT_("9", " ") LEAT_SDT_ARGUMENT_("10", " ") LEAT_SDT_ARGUMENT_("11", " ")                   \
    "\t.byte 0\n"                                                                                              \
    "94:\t.balign 4\n"                                                                                         \
    "\t.popsection\n"                                                                                          \
    "\t.ifndef _.stapsdt.base\n"                                                                               \
    "\t.pushsection .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat\n"                                 \
    "\t.weak _.stapsdt.base\n"                                                                                 \
    "\t.hidden _.stapsdt.base\n"                                                                               \
    "_.stapsdt.base:\n"                                                                                        \
    "\t.byte 0\n"                                                                                              \
    "\t.size _.stapsdt.base, 1\n"                                                                              \
    "\t.popsection\n"                                                                                          \
    "\t.endif\n"
#define LEAT_SDT_ARGUMENT_(number, space)                                                                      \
    "\t.if ((" LEAT_SDT_META_TEXT_ " >> (4 * " number ")) & 15) != 15\n"                                         \
    "\t.ascii \"" space "\"\n"                                                                                 \
    "\t.if (" LEAT_SDT_META_TEXT_ " >> (4 * " number ")) & 4\n"                                                \
    "\t.ascii \"-\"\n"                                                                                         \
    "\t.endif\n"                                                                                               \
    "\t.byte '0' + (1 << ((" LEAT_SDT_META_TEXT_ " >> (4 * " number ")) & 3))\n"                               \
    "\t.ascii \"@%[leat_" number "]\"\n"                                                                       \
    "\t.endif\n"
/* clang-format on */

/* `operands` and `size`: what `names` needs, see <leat/event.hpp>. Then at least 12 values. Inline: all of this text is
 * one instruction, so the function around it is no larger for the compiler. */
#define LEAT_SDT_PROBE_(tracepoint, names, operands, size, ...) \
    LEAT_SDT_PROBE_OF_(tracepoint, names, operands, size, __VA_ARGS__, )
#define LEAT_SDT_PROBE_OF_(tracepoint, names, operands, size, a, b, c, d, e, f, g, h, i, j, k, l, ...) \
    __asm__ volatile __inline__(                                                                       \
        LEAT_SDT_NOTE_(names)::[leat_probes] "i"(&(tracepoint).probes),                                \
        [leat_meta] "i"(LEAT_SDT_META_(a) | LEAT_SDT_META_(b) << 4 | LEAT_SDT_META_(c) << 8 |          \
                        LEAT_SDT_META_(d) << 12 | LEAT_SDT_META_(e) << 16 | LEAT_SDT_META_(f) << 20 |  \
                        LEAT_SDT_META_(g) << 24 | LEAT_SDT_META_(h) << 28 | LEAT_SDT_META_(i) << 32 |  \
                        LEAT_SDT_META_(j) << 36 | LEAT_SDT_META_(k) << 40 | LEAT_SDT_META_(l) << 44 |  \
                        (0ULL + (size)) << 48),                                                        \
        [leat_0] "nor"(LEAT_SDT_VALUE_OF_(a)), [leat_1] "nor"(LEAT_SDT_VALUE_OF_(b)),                  \
        [leat_2] "nor"(LEAT_SDT_VALUE_OF_(c)), [leat_3] "nor"(LEAT_SDT_VALUE_OF_(d)),                  \
        [leat_4] "nor"(LEAT_SDT_VALUE_OF_(e)), [leat_5] "nor"(LEAT_SDT_VALUE_OF_(f)),                  \
        [leat_6] "nor"(LEAT_SDT_VALUE_OF_(g)), [leat_7] "nor"(LEAT_SDT_VALUE_OF_(h)),                  \
        [leat_8] "nor"(LEAT_SDT_VALUE_OF_(i)), [leat_9] "nor"(LEAT_SDT_VALUE_OF_(j)),                  \
        [leat_10] "nor"(LEAT_SDT_VALUE_OF_(k)), [leat_11] "nor"(LEAT_SDT_VALUE_OF_(l))LEAT_SDT_UNWRAP_ operands)
#define LEAT_SDT_UNWRAP_(...) __VA_ARGS__
#define LEAT_SDT_NONE_12_                                                                                           \
    LEAT_SDT_NONE_, LEAT_SDT_NONE_, LEAT_SDT_NONE_, LEAT_SDT_NONE_, LEAT_SDT_NONE_, LEAT_SDT_NONE_, LEAT_SDT_NONE_, \
        LEAT_SDT_NONE_, LEAT_SDT_NONE_, LEAT_SDT_NONE_, LEAT_SDT_NONE_, LEAT_SDT_NONE_

/* Of a tracepoint whose names are literals, with any number of values, each with a comma after it. */
#define LEAT_SDT_NAMED_(id, provider, event, ...) \
    LEAT_SDT_PROBE_(leat_tracepoint_##id, LEAT_SDT_NAMES_(provider, event), (), 0, __VA_ARGS__ LEAT_SDT_NONE_12_);
#define LEAT_SDT_NAMES_(provider, event) "\t.asciz \"" provider "\"\n\t.asciz \"" event "\"\n"

#else

#define LEAT_IS_WANTED_(tracepoint) \
    (__atomic_load_n(__atomic_load_n(&(tracepoint).word, __ATOMIC_RELAXED), __ATOMIC_RELAXED) != 0)
#define LEAT_SDT_NAMED_(id, provider, event, ...)

#endif

#endif
