/* A program that captures its own events for a while: no daemon, no thread, no socket.
 *
 *     cc capture.c $(pkg-config --cflags --libs leat-capture) -o capture
 *     ./capture trace 2
 *     leat view trace
 *
 * Its event loop does what it always does, and once each turn lets the capture write what is full. */
#include <inttypes.h>
#include <leat/capture.h>
#include <leat/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REQUEST_FIELDS(FIELD) FIELD(integer, uint32_t, request, request)
LEAT_TRACEPOINT(io, queued, LEAT_INFO, REQUEST_FIELDS, uint32_t request);
LEAT_TRACEPOINT(io, completed, LEAT_INFO, REQUEST_FIELDS, uint32_t request);

/* What a turn of the loop does in a real program. */
static void serve(uint32_t request) {
    leat_tracepoint(io, queued, request);
    const struct timespec time = {.tv_nsec = 100000};
    nanosleep(&time, NULL);
    leat_tracepoint(io, completed, request);
}

static struct leat_capture* start(const char* directory, double seconds) {
    const struct leat_capture_environment shard = {.name = "shard", .number = 7};
    const char* const events[] = {"io:*", NULL};
    struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
    options.directory = directory;
    options.duration_ns = (uint64_t)(seconds * 1e9);
    options.max_size = 50 << 20;
    options.events = events;
    options.environment = &shard;
    options.environment_count = 1;
    char error[LEAT_CAPTURE_ERROR_SIZE];
    struct leat_capture* const capture = leat_capture_start(&options, error);
    if (capture == NULL) fprintf(stderr, "%s\n", error);
    return capture;
}

/* Fails where the capture failed: what is stored ends there. */
static int print_result(const struct leat_capture* capture) {
    struct leat_capture_result result;
    leat_capture_get_result(capture, &result);
    printf("%" PRIu64 " events, %" PRIu64 " skipped, %" PRIu64 " bytes\n", result.events, result.skipped, result.bytes);
    if (result.warnings != NULL) fprintf(stderr, "%s\n", result.warnings);
    if (result.error != NULL) fprintf(stderr, "%s\n", result.error);
    return result.end == LEAT_CAPTURE_ENDED_BY_ERROR ? 1 : 0;
}

int main(int argc, char** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: capture DIRECTORY SECONDS\n");
        return 2;
    }
    struct leat_capture* const capture = start(argv[1], strtod(argv[2], NULL));
    if (capture == NULL) return 1;
    for (uint32_t request = 0; leat_capture_write(capture) != 0; ++request) serve(request);
    const int status = print_result(capture);
    leat_capture_free(capture);
    return status;
}
