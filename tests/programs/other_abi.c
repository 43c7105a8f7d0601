/* As if compiled with the headers of another version of Leat. Says how many of its tracepoints are on: none. */
#include <leat/abi.h>
#include <stdio.h>
#include <stdlib.h>

static struct leat_tracepoint tracepoint = {.word = &tracepoint.off, .name = "other:event", .file = __FILE__};
static struct leat_tracepoint* const tracepoints[] = {&tracepoint};

int main(int argc, char** argv) {
    struct leat_module module = {.begin = tracepoints, .end = tracepoints + 1};
    module.abi_version = argc > 1 ? (uint32_t)atoi(argv[1]) : LEAT_ABI_VERSION;
    leat_module_load(&module);
    leat_module_load(&module);
    printf("%u\n", *tracepoint.word);
    leat_module_unload(&module);
    return 0;
}
