/* switched FILE BURST PAUSE_US: emits load:tick, numbered from 1, until the first word of FILE is not 0: BURST events
 * as fast as it can, a pause, and so on. FILE is shared memory: {u64 is_over, begun, evaluated}. `begun` is the number
 * of the event that is on its way, or was; `evaluated` counts those whose arguments the tracer wanted. */
#include <fcntl.h>
#include <leat/tracepoint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    uint64_t is_over;
    uint64_t begun;
    uint64_t evaluated;
}* shared;

static uint64_t evaluated(uint64_t n) {
    __atomic_store_n(&shared->evaluated, shared->evaluated + 1, __ATOMIC_RELEASE);
    return n;
}

#define TICK_FIELDS(FIELD) FIELD(integer, uint64_t, n, n)
LEAT_TRACEPOINT(load, tick, LEAT_INFO, TICK_FIELDS, uint64_t n);

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    const int fd = open(argv[1], O_RDWR);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || shared == MAP_FAILED) return 2;
    const uint64_t burst = strtoull(argv[2], NULL, 10);
    const useconds_t pause = (useconds_t)strtoul(argv[3], NULL, 10);
    for (uint64_t n = 1; __atomic_load_n(&shared->is_over, __ATOMIC_ACQUIRE) == 0; ++n) {
        /* Whoever reads a number below this one knows that the event of that number is over. */
        __atomic_store_n(&shared->begun, n, __ATOMIC_SEQ_CST);
        leat_tracepoint(load, tick, evaluated(n));
        if (n % burst == 0 && pause != 0) usleep(pause);
    }
    return 0;
}
