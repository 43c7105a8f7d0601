/* fields [SIZE]: every kind of field that C has, with values at its limits. tests/interop/tracer.py has the text of
 * each. SIZE: bytes of the large one. */
#include <arpa/inet.h>
#include <endian.h>
#include <float.h>
#include <leat/printf.h>
#include <leat/tracepoint.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define SIGNED_FIELDS(FIELD)      \
    FIELD(integer, int8_t, a, a)  \
    FIELD(integer, int16_t, b, b) \
    FIELD(integer, int32_t, c, c) \
    FIELD(integer, int64_t, d, d) \
    FIELD(integer, char, e, (char)a)
LEAT_TRACEPOINT(fields, signed_, LEAT_INFO, SIGNED_FIELDS, int8_t a, int16_t b, int32_t c, int64_t d);

#define UNSIGNED_FIELDS(FIELD)           \
    FIELD(integer, uint8_t, a, all)      \
    FIELD(integer, uint16_t, b, all)     \
    FIELD(integer, uint32_t, c, all)     \
    FIELD(integer, uint64_t, d, all)     \
    FIELD(integer_hex, uint8_t, e, all)  \
    FIELD(integer_hex, uint16_t, f, all) \
    FIELD(integer_hex, uint32_t, g, all) \
    FIELD(integer_hex, uint64_t, h, all) \
    FIELD(integer_hex, int8_t, i, all)   \
    FIELD(integer_hex, int64_t, j, all)
LEAT_TRACEPOINT(fields, unsigned_, LEAT_INFO, UNSIGNED_FIELDS, uint64_t all);

#define NETWORK_FIELDS(FIELD)                                        \
    FIELD(integer_network, uint16_t, a, htons(0x1234))               \
    FIELD(integer_network, uint32_t, b, htonl(1))                    \
    FIELD(integer_network, int32_t, c, (int32_t)htonl((uint32_t)-2)) \
    FIELD(integer_network, uint64_t, d, htobe64(UINT64_MAX - 1))     \
    FIELD(integer_network_hex, uint16_t, e, htons(0xabc))            \
    FIELD(integer_network_hex, uint32_t, f, htonl(0xdeadbeef))
LEAT_TRACEPOINT(fields, network, LEAT_INFO, NETWORK_FIELDS, void);

#define FLOATING_FIELDS(FIELD)   \
    FIELD(boolean, no, 0)        \
    FIELD(boolean, yes, 256)     \
    FIELD(floating, float, f, f) \
    FIELD(floating, double, d, d)
LEAT_TRACEPOINT(fields, floating, LEAT_INFO, FLOATING_FIELDS, float f, double d);

LEAT_ENUM(kind, LEAT_VALUE("minus one", -1), LEAT_RANGE("few", 1, 3), LEAT_AUTO("four"), LEAT_AUTO("five"),
          LEAT_RANGE("big", INT32_MAX - 1, INT32_MAX))
#define ENUM_FIELDS(FIELD)                         \
    FIELD(enumeration, kind, int32_t, wide, value) \
    FIELD(enumeration, kind, int8_t, narrow, value)
LEAT_TRACEPOINT(fields, enumeration, LEAT_INFO, ENUM_FIELDS, int32_t value);

#define TEXT_FIELDS(FIELD)                                 \
    FIELD(string, string, string)                          \
    FIELD(text, six, six, 6)                               \
    FIELD(text_sequence, counted, string, uint16_t, count) \
    FIELD(string, last, "end")
LEAT_TRACEPOINT(fields, text, LEAT_INFO, TEXT_FIELDS, const char* string, const char* six, size_t count);

/* Goes straight to the ring, if it is not too long. */
#define ONE_TEXT_FIELDS(FIELD)                            \
    FIELD(boolean, yes, count)                            \
    FIELD(integer_network_hex, uint16_t, port, htons(80)) \
    FIELD(integer, int64_t, count, count)                 \
    FIELD(string, string, string)                         \
    FIELD(floating, double, half, 0.5)                    \
    FIELD(enumeration, kind, int8_t, narrow, 4)           \
    FIELD(integer_hex, uint64_t, last, UINT64_MAX)
LEAT_TRACEPOINT(fields, one_text, LEAT_INFO, ONE_TEXT_FIELDS, const char* string, size_t count);

#define ARRAY_FIELDS(FIELD)                            \
    FIELD(array, int16_t, plain, values, 3)            \
    FIELD(array_hex, uint16_t, hex, values, 3)         \
    FIELD(array_network, uint16_t, network, values, 3) \
    FIELD(array_network_hex, uint16_t, both, values, 3)
LEAT_TRACEPOINT(fields, array, LEAT_INFO, ARRAY_FIELDS, const void* values);

#define SEQUENCE_FIELDS(FIELD)                                          \
    FIELD(sequence, int64_t, plain, values, uint8_t, count)             \
    FIELD(sequence_hex, uint64_t, hex, values, uint16_t, count)         \
    FIELD(sequence_network, uint64_t, network, values, uint32_t, count) \
    FIELD(sequence_network_hex, uint64_t, both, values, uint64_t, count)
LEAT_TRACEPOINT(fields, sequence, LEAT_INFO, SEQUENCE_FIELDS, const void* values, size_t count);

LEAT_TRACEPOINT(fields, none, LEAT_INFO, LEAT_NO_FIELDS, void);

/* Too large to be staged on the stack. */
#define LARGE_FIELDS(FIELD) FIELD(sequence, uint8_t, bytes, bytes, uint32_t, count) FIELD(integer, uint8_t, last, 7)
LEAT_TRACEPOINT(fields, large, LEAT_INFO, LARGE_FIELDS, const void* bytes, size_t count);

static void numbers(void) {
    leat_tracepoint(fields, signed_, INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN);
    leat_tracepoint(fields, signed_, INT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX);
    leat_tracepoint(fields, unsigned_, UINT64_MAX);
    leat_tracepoint(fields, unsigned_, 0);
    leat_tracepoint(fields, network);
    leat_tracepoint(fields, floating, FLT_MAX, DBL_MAX);
    leat_tracepoint(fields, floating, -FLT_MIN, -DBL_MIN);
    leat_tracepoint(fields, floating, 0.5F, 1.0 / 3);
    leat_tracepoint(fields, floating, -0.0F, -INFINITY);
    leat_tracepoint(fields, floating, INFINITY, (double)NAN);
    for (int value = -2; value <= 6; ++value) leat_tracepoint(fields, enumeration, value);
    leat_tracepoint(fields, enumeration, INT32_MAX);
}

static void texts(void) {
    leat_tracepoint(fields, text, "plain", "sixsix", 5);
    leat_tracepoint(fields, text, NULL, "a\0b\0c", 5);
    leat_tracepoint(fields, text, "", "\0\0\0\0\0", 0);
    leat_tracepoint(fields, text, "quote\" slash\\ tab\t newline\n caf\303\251", "\303\251\303\251\303\251", 25);
    leat_tracepoint(fields, one_text, "", 0);
    leat_tracepoint(fields, one_text, NULL, 1);
    leat_tracepoint(fields, one_text, "more than sixteen characters", 2);
    static char longest[4096 + 2];
    memset(longest, '1', sizeof longest - 1);
    leat_tracepoint(fields, one_text, longest + 1, 3);
    leat_tracepoint(fields, one_text, longest, 4);
}

static void lists(size_t large_size) {
    const uint16_t three[] = {0, 0x0100, 0xffff};
    leat_tracepoint(fields, array, three);
    leat_tracepoint(fields, array, NULL);
    const uint64_t two[] = {1, UINT64_MAX};
    leat_tracepoint(fields, sequence, two, 2);
    leat_tracepoint(fields, sequence, two, 0);
    leat_tracepoint(fields, sequence, NULL, 2);
    static uint8_t bytes[1 << 20];
    memset(bytes, 1, sizeof bytes);
    if (large_size <= sizeof bytes) leat_tracepoint(fields, large, bytes, large_size);
}

int main(int argc, char** argv) {
    numbers();
    texts();
    lists(argc > 1 ? strtoul(argv[1], NULL, 10) : 10000);
    leat_tracepoint(fields, none);
    leat_printf("%s %d%%", "printed", 100);
    return 0;
}
