/* Preloaded into a daemon: its time of day is ahead of the system's by what LEAT_TEST_SHIFT, a file, says: {i64
 * seconds}. Others write into it, as NTP sets a clock. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int64_t* shift;

__attribute__((constructor)) static void begin(void) {
    const char* const path = getenv("LEAT_TEST_SHIFT");
    const int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void* const memory = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) shift = memory;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
    const long result = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME && shift != NULL) now->tv_sec += __atomic_load_n(shift, __ATOMIC_RELAXED);
    return (int)result;
}
