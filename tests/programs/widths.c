/* widths COUNT [END]: emits width:values COUNT times, numbered, with values whose types depend on the program's width.
 * Then their sizes go to stdout. END: "forever" emits until it is killed; "fork" emits as many once more in a child. */
#include <leat/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define VALUES_FIELDS(FIELD)                                 \
    FIELD(integer, uint64_t, n, n)                           \
    FIELD(integer, long, negative, -(long)n - 1)             \
    FIELD(integer, size_t, most, SIZE_MAX)                   \
    FIELD(integer_hex, uintptr_t, pointer, (uintptr_t)&free) \
    FIELD(floating, double, half, (double)n / 2)             \
    FIELD(sequence, unsigned long, list, list, size_t, n % 3)
LEAT_TRACEPOINT(width, values, LEAT_INFO, VALUES_FIELDS, uint64_t n, const unsigned long* list);

/* The same in both widths. */
#define FIXED_FIELDS(FIELD)        \
    FIELD(integer, uint64_t, n, n) \
    FIELD(floating, double, half, (double)n / 2)
LEAT_TRACEPOINT(width, fixed, LEAT_INFO, FIXED_FIELDS, uint64_t n);

static void emit(uint64_t n) {
    static const unsigned long list[] = {0, (unsigned long)-1};
    leat_tracepoint(width, values, n, list);
    leat_tracepoint(width, fixed, n);
}

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    const uint64_t count = strtoull(argv[1], NULL, 10);
    const char* const end = argc > 2 ? argv[2] : "";
    const pid_t child = strcmp(end, "fork") == 0 ? fork() : 1;
    for (uint64_t n = 0; n < count || strcmp(end, "forever") == 0; ++n) emit(n);
    if (child == 0) _exit(0);
    if (strcmp(end, "fork") == 0) waitpid(child, NULL, 0);
    printf("%zu %zu %zu\n", sizeof(long), sizeof(size_t), sizeof(void*));
    return 0;
}
