/* Declared tracepoints, in C.
 *
 *     cc hello.c -lleat -o hello
 *     leat record -o trace -- ./hello Ada Grace
 *     leat view trace
 *
 * Without `leat record` the program runs as if the tracepoints were not there. */
#include <leat/printf.h>
#include <leat/tracepoint.h>
#include <stdio.h>
#include <string.h>

/* An enumeration's labels appear in the trace instead of its numbers. */
enum mood { MOOD_CALM, MOOD_GLAD };
LEAT_ENUM(mood, LEAT_VALUE("calm", MOOD_CALM), LEAT_VALUE("glad", MOOD_GLAD))

/* The fields of hello:greeted. The last column is any expression over the parameters below; it is evaluated only while
 * somebody records the event. */
#define GREETED_FIELDS(FIELD)                      \
    FIELD(string, name, name)                      \
    FIELD(integer, uint32_t, length, strlen(name)) \
    FIELD(enumeration, mood, uint8_t, mood, mood)

/* Provider, name, log level, fields, parameters. */
LEAT_TRACEPOINT(hello, greeted, LEAT_INFO, GREETED_FIELDS, const char* name, enum mood mood);

/* A tracepoint may have neither fields nor parameters. */
LEAT_TRACEPOINT(hello, finished, LEAT_NOTICE, LEAT_NO_FIELDS, void);

/* An event whose arguments are costly to work out. leat_enabled() below says whether anybody wants them. */
#define LETTERS_FIELDS(FIELD) FIELD(array, uint32_t, counts, counts, 26)
LEAT_TRACEPOINT(hello, letters, LEAT_DEBUG, LETTERS_FIELDS, const uint32_t* counts);

static void trace_letters(const char* text) {
    uint32_t counts[26] = {0};
    for (; *text != '\0'; ++text) {
        if (*text >= 'a' && *text <= 'z') ++counts[*text - 'a'];
    }
    leat_tracepoint(hello, letters, counts);
}

static void greet(const char* name) {
    printf("Hello, %s!\n", name);
    leat_tracepoint(hello, greeted, name, strlen(name) > 4 ? MOOD_GLAD : MOOD_CALM);
    if (leat_enabled(hello, letters)) trace_letters(name);
}

int main(int argc, char** argv) {
    if (argc == 1) greet("world");
    for (int i = 1; i < argc; ++i) greet(argv[i]);
    /* A quick look that needs no declaration: the event leat:printf. */
    leat_printf("%d to greet", argc - 1);
    leat_tracepoint(hello, finished);
    return 0;
}
