// Names that are hard for traces. tests/interop/names.py knows how each is shown, or why it is refused.
#include <leat/tracepoint.h>

#include <cstdint>
#include <leat/event.hpp>

#define KEYWORD_FIELDS(FIELD)              \
    FIELD(integer, int, align, 1)          \
    FIELD(integer, int, event, 2)          \
    FIELD(integer, int, string, 3)         \
    FIELD(integer, int, integer, 4)        \
    FIELD(integer, int, floating_point, 5) \
    FIELD(integer, int, variant, 6)        \
    FIELD(integer, int, Bool, 7)           \
    FIELD(integer, int, Complex, 8)        \
    FIELD(integer, int, Imaginary, 9)      \
    FIELD(integer, int, name, 10)          \
    FIELD(integer, int, id, 11)            \
    FIELD(integer, int, cpu_id, 12)        \
    FIELD(integer, int, timestamp, 13)
LEAT_TRACEPOINT(names, keywords, LEAT_INFO, KEYWORD_FIELDS, void);

#define UNDERSCORE_FIELDS(FIELD)  \
    FIELD(integer, int, _x, 1)    \
    FIELD(integer, int, x, 2)     \
    FIELD(integer, int, y, 3)     \
    FIELD(integer, int, _y, 4)    \
    FIELD(integer, int, __y, 5)   \
    FIELD(integer, int, _, 6)     \
    FIELD(integer, int, __, 7)    \
    FIELD(integer, int, _enum, 8) \
    FIELD(integer, int, _Bool_, 9)
LEAT_TRACEPOINT(names, underscores, LEAT_INFO, UNDERSCORE_FIELDS, void);

// The lengths differ, so that a reader that uses the wrong one is noticed.
#define BYTES(FIELD, name, length) FIELD(sequence, std::uint8_t, name, "\1\2\3\4", std::uint8_t, length)
#define LENGTH_FIELDS(FIELD)                    \
    FIELD(integer, std::uint8_t, __z_length, 9) \
    BYTES(FIELD, z, 2)                          \
    BYTES(FIELD, _x, 2)                         \
    BYTES(FIELD, x, 3)                          \
    FIELD(integer, std::uint8_t, x_length, 7)   \
    FIELD(integer, std::uint8_t, _x_length, 8)  \
    BYTES(FIELD, y, 1)                          \
    BYTES(FIELD, _y, 4)                         \
    FIELD(integer, std::uint8_t, y_length, 6)
LEAT_TRACEPOINT(names, lengths, LEAT_INFO, LENGTH_FIELDS, void);

// Sequences whose names have 255 characters, the most that a name may have, and 256. The names of their lengths are
// longer still.
// clang-format off
#define LONGEST_FIELDS(FIELD) \
    BYTES(FIELD, abcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijkl, 2)
#define TOO_LONG_FIELDS(FIELD) \
    BYTES(FIELD, abcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijbcdefghijklm, 2)
// clang-format on
LEAT_TRACEPOINT(names, longest, LEAT_INFO, LONGEST_FIELDS, void);
LEAT_TRACEPOINT(names, too_long, LEAT_INFO, TOO_LONG_FIELDS, void);

#define NO_ROOM_FIELDS(FIELD) FIELD(integer, int, __x, 1) FIELD(integer, int, _x, 2)
LEAT_TRACEPOINT(names, no_room, LEAT_INFO, NO_ROOM_FIELDS, void);
#define STREAM_FIELDS(FIELD) FIELD(integer, int, stream, 1) FIELD(integer, int, _stream, 2)
LEAT_TRACEPOINT(names, keyword_first, LEAT_INFO, STREAM_FIELDS, void);
#define STREAM_BEHIND_FIELDS(FIELD) FIELD(integer, int, _stream, 1) FIELD(integer, int, stream, 2)
LEAT_TRACEPOINT(names, keyword_second, LEAT_INFO, STREAM_BEHIND_FIELDS, void);
#define DOLLAR_FIELDS(FIELD) FIELD(integer, int, a$b, 1)
LEAT_TRACEPOINT(names, dollar, LEAT_INFO, DOLLAR_FIELDS, void);
#define UTF8_FIELDS(FIELD) FIELD(integer, int, größe, 1)
LEAT_TRACEPOINT(names, utf8, LEAT_INFO, UTF8_FIELDS, void);
LEAT_TRACEPOINT(größe, a$b, LEAT_INFO, LEAT_NO_FIELDS, void);

LEAT_ENUM(odd, LEAT_VALUE("\"quoted\" back\\slash %s%n", 0), LEAT_VALUE("", 1), LEAT_VALUE("größe", 2),
          LEAT_VALUE("*/ };", 3), LEAT_RANGE("least", INT64_MIN, -1))
#define LABEL_FIELDS(FIELD) FIELD(enumeration, odd, std::int64_t, label, value)
LEAT_TRACEPOINT(names, labels, LEAT_INFO, LABEL_FIELDS, std::int64_t value);
LEAT_ENUM(tabbed, LEAT_VALUE("a\tb", 0))
#define TABBED_FIELDS(FIELD) FIELD(enumeration, tabbed, std::int8_t, label, 0)
LEAT_TRACEPOINT(names, tabbed, LEAT_INFO, TABBED_FIELDS, void);

static void fields() {
    leat_tracepoint(names, keywords);
    leat_tracepoint(names, underscores);
    leat_tracepoint(names, lengths);
    leat_tracepoint(names, longest);
    leat_tracepoint(names, too_long);
    leat_tracepoint(names, no_room);
    leat_tracepoint(names, keyword_first);
    leat_tracepoint(names, keyword_second);
    leat_tracepoint(names, dollar);
    leat_tracepoint(names, utf8);
}

static void other_names() {
    leat_tracepoint(größe, a$b);
    const std::int64_t values[] = {INT64_MIN, 0, 1, 2, 3};
    for (const std::int64_t value : values) leat_tracepoint(names, labels, value);
    leat_tracepoint(names, tabbed);
    LEAT_EVENT("\"quoted\" back\\slash %s%n: größe */ };", LEAT_FIELD(n, 1));
    LEAT_EVENT("names:line\nbreak", LEAT_FIELD(n, 1));
}

int main() {
    fields();
    other_names();
    return 0;
}
