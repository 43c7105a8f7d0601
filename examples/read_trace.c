/* Reads traces, of Leat, LTTng or others, and prints their events: time in nanoseconds, name, and fields.
 *
 *     cc read_trace.c -o read-trace $(pkg-config --cflags --libs leat-ctf)
 *     ./read-trace TRACE ['size > 4096'] */
#include <inttypes.h>
#include <leat/ctf.h>
#include <stdio.h>

static void print(const struct leat_ctf_value* value) {
    size_t size;
    const char* label;
    const char* text;
    switch (leat_ctf_get_kind(value)) {
        case LEAT_CTF_SIGNED:
            printf("%" PRIi64, leat_ctf_integer(value));
            break;
        case LEAT_CTF_UNSIGNED:
            printf("%" PRIu64, (uint64_t)leat_ctf_integer(value));
            break;
        case LEAT_CTF_REAL:
            printf("%g", leat_ctf_real(value));
            break;
        case LEAT_CTF_TEXT:
            text = leat_ctf_text(value, &size);
            printf("\"%.*s\"", (int)size, text);
            break;
        case LEAT_CTF_STRUCT:
        case LEAT_CTF_ARRAY: {
            const struct leat_ctf_value* part = leat_ctf_first_part(value);
            const size_t count = leat_ctf_part_count(value);
            for (size_t i = 0; i < count; ++i, part = leat_ctf_next_part(part)) {
                printf("%s%s%s", i == 0 ? "" : " ", leat_ctf_name(part), *leat_ctf_name(part) == 0 ? "" : "=");
                print(part);
            }
            break;
        }
        case LEAT_CTF_NONE:
            break;
    }
    if (leat_ctf_labels(value, &label, 1) == 1) printf(":%s", label);
}

int main(int argc, char** argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s TRACE [FILTER]\n", argv[0]);
        return 2;
    }
    const char* const path = argv[1];
    struct leat_ctf_options options = LEAT_CTF_OPTIONS;
    if (argc == 3) options.filter = argv[2];
    char error[LEAT_CTF_ERROR_SIZE];
    struct leat_ctf_reader* const reader = leat_ctf_open(&path, 1, &options, error);
    if (reader == NULL) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    while (leat_ctf_next(reader) > 0) {
        int64_t time_ns = 0;
        leat_ctf_event_time(reader, &time_ns);
        printf("%" PRIi64 " %s ", time_ns, leat_ctf_event_name(reader));
        print(leat_ctf_get_scope(reader, LEAT_CTF_FIELDS));
        printf("\n");
    }
    const int has_failed = leat_ctf_error(reader) != NULL;
    if (has_failed) fprintf(stderr, "%s\n", leat_ctf_error(reader));
    leat_ctf_close(reader);
    return has_failed;
}
