/* capture DIRECTORY [NAME=NUMBER...]: captures what its own threads do, and prints what came of it, as lines of
 * "name number". Requests have three events each, of 24 bytes together with tiny headers.
 *
 *     threads=1        that emit
 *     requests=1000    of each thread; then the capture is stopped. 0: until it ends by itself
 *     pause_us=0       after each request
 *     duration_ms=60000, size=1073741824, blocks=0, block_size=0, flush_ms=0      as in leat_capture_options
 *     contexts=0       with vtid and procname
 *     stall_ms=0       nothing is written for so long at first
 *     backwards=0      buffers are written in pairs, the second one first
 *     part=0           bytes of each write, at most
 *     errors=0         so many writes fail before one succeeds: EINTR
 *     broken_after=0   after so many writes, one fails: EIO
 *     again=0          after the first one, another capture into DIRECTORY-again
 *     forks=0          children that emit a request, use the capture and free it
 *     by_library=0     leat_capture_write() in place of buffers
 *     by_kernel=0      leat_capture_submit() in place of buffers
 *     submits=0        with by_library, so many leat_capture_submit() come first
 *     free_early=0     freed instead of stopped
 *     header=0         1: compact, 2: large
 *     burst=0          no threads: the main thread emits so many requests each turn
 *     lazy=0           of 2 * lazy turns, polls in the first half
 *     held=0           so many buffers are never written: they are out when the capture is freed
 *     twice=0          tries to start a second one meanwhile
 *     sticky=0         names the scheduling classes first: io:class_named, for so many
 *     marks=0          says on standard output when the capture has begun, and when it is over */
#include <errno.h>
#include <inttypes.h>
#include <leat/capture.h>
#include <leat/sticky.h>
#include <leat/tracepoint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUEUED_FIELDS(FIELD)                  \
    FIELD(integer, uint32_t, request, number) \
    FIELD(integer, uint8_t, class_, class_)   \
    FIELD(integer, uint16_t, blocks, blocks)
LEAT_TRACEPOINT(io, queued, LEAT_INFO, QUEUED_FIELDS, uint32_t number, uint8_t class_, uint16_t blocks);
#define REQUEST_FIELDS(FIELD) FIELD(integer, uint32_t, request, number)
LEAT_TRACEPOINT(io, dispatched, LEAT_INFO, REQUEST_FIELDS, uint32_t number);
#define CLASS_FIELDS(FIELD)                 \
    FIELD(integer, uint8_t, class_, class_) \
    FIELD(string, name, name)
LEAT_STICKY_EVENT(io, class_named, LEAT_INFO, CLASS_FIELDS, uint8_t class_, const char* name);
LEAT_TRACEPOINT(io, completed, LEAT_INFO, REQUEST_FIELDS, uint32_t number);

static struct {
    uint64_t threads, requests, pause_us, duration_ms, size, blocks, block_size, flush_ms, contexts, stall_ms,
        backwards, part, errors, broken_after, again, forks, by_library, free_early, header, burst, lazy, held, twice,
        marks, sticky, by_kernel, submits;
} options = {.threads = 1, .requests = 1000, .duration_ms = 60000, .size = 1 << 30};

static const struct {
    const char* name;
    uint64_t* value;
} names[] = {
    {"threads", &options.threads},
    {"requests", &options.requests},
    {"pause_us", &options.pause_us},
    {"duration_ms", &options.duration_ms},
    {"size", &options.size},
    {"blocks", &options.blocks},
    {"block_size", &options.block_size},
    {"flush_ms", &options.flush_ms},
    {"contexts", &options.contexts},
    {"stall_ms", &options.stall_ms},
    {"backwards", &options.backwards},
    {"part", &options.part},
    {"submits", &options.submits},
    {"errors", &options.errors},
    {"broken_after", &options.broken_after},
    {"again", &options.again},
    {"forks", &options.forks},
    {"by_library", &options.by_library},
    {"free_early", &options.free_early},
    {"header", &options.header},
    {"burst", &options.burst},
    {"lazy", &options.lazy},
    {"held", &options.held},
    {"twice", &options.twice},
    {"marks", &options.marks},
    {"sticky", &options.sticky},
    {"by_kernel", &options.by_kernel},
};

static atomic_uint_least64_t emitted;
static atomic_uint_least64_t working;
static atomic_bool is_over;

static void request(uint32_t number) {
    const bool is_on = leat_enabled(io, queued);
    leat_tracepoint(io, queued, number, (uint8_t)(number % 3), 8);
    leat_tracepoint(io, dispatched, number);
    leat_tracepoint(io, completed, number);
    if (is_on) emitted += 3;
}

static void nap(uint64_t us) {
    const struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
    nanosleep(&time, NULL);
}

static void* work(void* argument) {
    const uint32_t first = (uint32_t)(uintptr_t)argument;
    for (uint64_t i = 0; (options.requests == 0 || i < options.requests) && !is_over; ++i) {
        request(first + (uint32_t)i);
        if (options.pause_us != 0) nap(options.pause_us);
    }
    --working;
    return NULL;
}

static uint64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void write_buffer(struct leat_capture* capture, struct leat_capture_buffer* buffer) {
    static uint64_t writes;
    ++writes;
    if (writes % (options.errors + 1) != 0) return leat_capture_written(capture, buffer, -EINTR);
    if (options.broken_after != 0 && writes == options.broken_after) return leat_capture_written(capture, buffer, -EIO);
    if (options.part != 0) {
        buffer->part_count = 1;
        if (buffer->parts[0].iov_len > options.part) buffer->parts[0].iov_len = options.part;
    }
    const ssize_t size = pwritev(buffer->fd, buffer->parts, buffer->part_count, (off_t)buffer->offset);
    leat_capture_written(capture, buffer, size < 0 ? -errno : size);
}

/* False: it is over. */
static bool step(struct leat_capture* capture) {
    if (options.by_kernel) return leat_capture_submit(capture) >= 0;
    if (options.by_library && options.submits != 0) {
        --options.submits;
        return leat_capture_submit(capture) >= 0;
    }
    if (options.by_library) return leat_capture_write(capture) != 0;
    struct leat_capture_buffer buffers[2];
    for (; options.held != 0; --options.held)
        if (leat_capture_poll(capture, buffers, 1) != 1) return true;
    const int count = leat_capture_poll(capture, buffers, options.backwards ? 2 : 1);
    for (int i = count; i-- > 0;) write_buffer(capture, &buffers[i]);
    return count >= 0;
}

static bool has_rings(void) {
    char line[4096];
    bool has = false;
    FILE* const maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) has |= strstr(line, "leat-rings") != NULL;
    if (maps != NULL) fclose(maps);
    return has;
}

static void fork_child(struct leat_capture* capture) {
    const pid_t child = fork();
    if (child == 0) {
        request(4711);
        struct leat_capture_buffer buffer;
        const int polled = leat_capture_poll(capture, &buffer, 1);
        const bool had_rings = has_rings();
        leat_capture_free(capture);
        const bool has_any_left = options.threads == 0 && has_rings(); /* a thread may have been mapping one */
        _exit((polled != -1 ? 1 : 0) | (leat_enabled(io, queued) ? 2 : 0) | (had_rings ? 0 : 4) |
              (has_any_left ? 8 : 0));
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) printf("child_failed %d\n", status);
}

static struct leat_capture* start(const char* directory) {
    static const struct leat_capture_environment environment[] = {{"shard", NULL, 7},
                                                                  {"classes", "0:main,1:exit,2:lr", 0}};
    static const char* const events[] = {"io:*", NULL};
    struct leat_capture_options all = LEAT_CAPTURE_OPTIONS;
    all.directory = directory;
    all.duration_ns = options.duration_ms * 1000000;
    all.max_size = options.size;
    all.events = events;
    all.blocks = (uint32_t)options.blocks;
    all.block_size = (uint32_t)options.block_size;
    all.flush_period_ns = options.flush_ms * 1000000;
    if (options.header != 0) all.header = options.header == 1 ? "compact" : "large";
    if (options.contexts) all.contexts = "vtid,procname";
    all.environment = environment;
    all.environment_count = sizeof environment / sizeof environment[0];
    char error[LEAT_CAPTURE_ERROR_SIZE];
    struct leat_capture* const capture = leat_capture_start(&all, error);
    if (capture == NULL) fprintf(stderr, "%s\n", error);
    return capture;
}

static void print(const struct leat_capture_result* result) {
    printf("emitted %" PRIu64 "\nevents %" PRIu64 "\nskipped %" PRIu64 "\nlost %" PRIu64 "\nbytes %" PRIu64
           "\nend %d\nis_over %d\n",
           (uint64_t)emitted, result->events, result->skipped, result->lost, result->bytes, (int)result->end,
           result->is_over);
    printf("enabled %d\n", leat_enabled(io, queued) ? 1 : 0);
    if (result->error != NULL) fprintf(stderr, "%s\n", result->error);
    if (result->warnings != NULL) fprintf(stderr, "%s\n", result->warnings);
}

static void mark(const char* text) {
    if (options.marks && write(STDOUT_FILENO, text, strlen(text)) < 0) abort();
}

/* The program's event loop: its own events, and the capture. False: the capture is over. */
static bool loop(struct leat_capture* capture) {
    bool goes_on = true;
    uint64_t turn = 0;
    for (uint64_t i = 0; goes_on && (options.requests == 0 || i < options.requests); ++turn) {
        for (const uint64_t end = i + options.burst; i < end; ++i) request((uint32_t)i);
        if (options.lazy == 0 || turn / options.lazy % 2 == 0) goes_on = step(capture);
        if (options.pause_us != 0) nap(options.pause_us);
    }
    return goes_on;
}

static bool wait_for_threads(struct leat_capture* capture) {
    bool goes_on = true;
    while (goes_on && (options.requests == 0 || working != 0)) {
        goes_on = step(capture);
        if (options.pause_us != 0) nap(options.pause_us);
    }
    return goes_on;
}

static int run(const char* directory) {
    if (options.burst != 0) options.threads = 0;
    struct leat_capture* const capture = start(directory);
    if (capture == NULL) return 1;
    if (options.twice && start(directory) != NULL) return 1;
    mark("begun\n");
    is_over = false;
    emitted = 0;
    working = options.threads;
    pthread_t threads[64];
    for (uint64_t i = 0; i < options.threads; ++i)
        pthread_create(&threads[i], NULL, work, (void*)(uintptr_t)(i * 100000000));
    for (uint64_t i = 0; i < options.forks; ++i) fork_child(capture);
    const uint64_t begin = now_ms();
    while (now_ms() < begin + options.stall_ms) nap(1000);
    bool goes_on = options.burst != 0 ? loop(capture) : wait_for_threads(capture);
    if (!options.free_early) leat_capture_stop(capture);
    while (goes_on && !options.free_early) goes_on = step(capture);
    mark("over\n");
    is_over = true;
    for (uint64_t i = 0; i < options.threads; ++i) pthread_join(threads[i], NULL);
    struct leat_capture_result result;
    leat_capture_get_result(capture, &result);
    print(&result);
    leat_capture_free(capture);
    return 0;
}

int main(int argc, char** argv) {
    for (int i = 2; i < argc; ++i) {
        const char* const sign = strchr(argv[i], '=');
        bool is_known = false;
        for (size_t n = 0; sign != NULL && n < sizeof names / sizeof names[0]; ++n) {
            if (strncmp(argv[i], names[n].name, (size_t)(sign - argv[i])) != 0 || names[n].name[sign - argv[i]] != '\0')
                continue;
            *names[n].value = strtoull(sign + 1, NULL, 10);
            is_known = true;
        }
        if (!is_known) return 2;
    }
    if (argc < 2 || options.threads > 64) return 2;
    for (uint64_t i = 0; i < options.sticky; ++i) leat_sticky(io, class_named, i, (uint8_t)i, "main");
    int status = run(argv[1]);
    char other[4096];
    snprintf(other, sizeof other, "%s-again", argv[1]);
    if (options.again && status == 0) status = run(other);
    return status;
}
