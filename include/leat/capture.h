/* Capture: a program records its own events for a while, without a daemon, a thread or a socket.
 *
 * For C11 and C++17; <leat/capture.hpp> has the same as a class. Link libleat-capture (pkg-config leat-capture).
 *
 *     struct leat_capture_options options = LEAT_CAPTURE_OPTIONS;
 *     options.directory = "/var/tmp/io-trace";
 *     options.duration_ns = 5000000000;
 *     options.max_size = 50 << 20;
 *     char error[LEAT_CAPTURE_ERROR_SIZE];
 *     struct leat_capture *capture = leat_capture_start(&options, error);
 *     if (capture == NULL) fprintf(stderr, "%s\n", error);
 *
 *     while (running) {                       the program's own event loop
 *         ...
 *         if (capture != NULL && leat_capture_write(capture) == 0) {
 *             leat_capture_free(capture);     it has come to its end
 *             capture = NULL;
 *         }
 *     }
 *
 * From its start on, the program's tracepoints write into memory that was set aside: blocks, for each CPU. The capture
 * ends by itself after its duration, or where more would exceed its size; what the blocks hold by then is part of it,
 * as far as the size allows. Events that find no free block are counted, and the count is in the next block. The result
 * is a CTF 1.8 trace in the directory, for babeltrace2, Trace Compass and `leat view`.
 *
 * There is one capture at a time in a process, and none in a program that `leat record` has started. Session daemons
 * may trace the program meanwhile. A child of fork() does not go on with its parent's capture, and leaves it alone; it
 * may start one of its own.
 *
 * Each function is for one thread at a time, and for no signal handler; events come from any thread. */
#ifndef LEAT_CAPTURE_H
#define LEAT_CAPTURE_H

#include <leat/abi.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_capture;

/* A line of the trace's environment: what was captured, as a number or a text. */
struct leat_capture_environment {
    const char* name; /* letters, digits, underscores; not a digit first */
    const char* text; /* NULL: the number holds */
    int64_t number;
};

/* Begin with LEAT_CAPTURE_OPTIONS. Everything is copied. */
struct leat_capture_options {
    size_t size;           /* of this struct, as the program was compiled */
    const char* directory; /* new or empty; its parent exists */
    uint64_t duration_ns;  /* 1 or more */
    uint64_t max_size;     /* bytes that the trace may take on disk, 64 KiB or more: 8 blocks, or they are smaller; the
                            * descriptions of all events must fit, about 300 bytes each */
    const char* const* events; /* patterns such as "io:*", up to a NULL; NULL: all events */
    uint32_t blocks;           /* of each CPU: a power of two, 4 or more. 0: 8 */
    uint32_t block_size;       /* bytes: a power of two, 4096 or more. Together 64 KiB to 1 GiB a CPU. 0: 128 KiB */
    const char* header;        /* "tiny" (NULL), "compact" or "large", as `leat record --header` */
    const char* contexts;      /* as `leat record --context`: "vtid,procname". NULL: none */
    uint64_t flush_period_ns;  /* a block that is not full by then is handed out, too. 0: 1 s; UINT64_MAX: never */
    const struct leat_capture_environment* environment;
    size_t environment_count;
};
#ifdef __cplusplus
#define LEAT_CAPTURE_OPTIONS \
    { sizeof(struct leat_capture_options), nullptr, 0, 0, nullptr, 0, 0, nullptr, nullptr, 0, nullptr, 0 }
#else
#define LEAT_CAPTURE_OPTIONS \
    { sizeof(struct leat_capture_options), NULL, 0, 0, NULL, 0, 0, NULL, NULL, 0, NULL, 0 }
#endif

#define LEAT_CAPTURE_ERROR_SIZE 512

/* Makes directory and files, sets memory aside, and switches tracepoints on. NULL: `error`, LEAT_CAPTURE_ERROR_SIZE
 * bytes or NULL, gets a line that says why. */
LEAT_EXPORT struct leat_capture* leat_capture_start(const struct leat_capture_options* options, char* error);

/* Bytes to write into a file of the capture, as by pwritev(fd, parts, part_count, offset). They stay where they are
 * until leat_capture_written(). */
#define LEAT_CAPTURE_PARTS 2
struct leat_capture_buffer {
    uint64_t number; /* of the buffer */
    int fd;
    int part_count;
    uint64_t offset;
    struct iovec parts[LEAT_CAPTURE_PARTS];
};

/* Does what is due, and fills up to `count` buffers that are to be written; returns how many. Costs some ns where
 * nothing is due, and makes no system call but when the capture ends, a library has been loaded or an event is the
 * first on its CPU. At least once for each time in which the blocks may fill up; call it also when the program is idle.
 * -1: the capture is over, all is written and the files are closed. */
LEAT_EXPORT int leat_capture_poll(struct leat_capture* capture, struct leat_capture_buffer* buffers, int count);

/* A buffer is written, in any order: `result` is the number of bytes, or -errno. What is missing is handed out again.
 * After an error other than EINTR and EAGAIN the capture ends: what is stored before it is a whole trace. */
LEAT_EXPORT void leat_capture_written(struct leat_capture* capture, const struct leat_capture_buffer* buffer,
                                      ssize_t result);

/* For who does not write by himself: polls, waits for what leat_capture_submit() has under way, and writes what there
 * is by pwritev(). 1: the capture goes on; 0: it is over. */
LEAT_EXPORT int leat_capture_write(struct leat_capture* capture);

/* The same without waiting for the disk: hands what there is to the kernel by io_uring, one system call, and takes note
 * of what is done, without one. Returns how many writes are under way; -1: it is over. Where the kernel has no io_uring
 * or does not allow it, leat_capture_write(). Not together with buffers of one's own. */
LEAT_EXPORT int leat_capture_submit(struct leat_capture* capture);

/* Ends the capture before its time: tracepoints are switched off. Go on until it is over. */
LEAT_EXPORT void leat_capture_stop(struct leat_capture* capture);

enum leat_capture_end {
    LEAT_CAPTURE_RUNS,
    LEAT_CAPTURE_ENDED_BY_DURATION,
    LEAT_CAPTURE_ENDED_BY_SIZE,
    LEAT_CAPTURE_ENDED_BY_STOP,
    LEAT_CAPTURE_ENDED_BY_ERROR
};

/* By now; once it is over, what is final. Events that were written or counted = stored + skipped + lost. */
struct leat_capture_result {
    enum leat_capture_end end;
    int is_over;
    uint64_t events;      /* stored; while it runs, those that were handed out */
    uint64_t skipped;     /* found no free block, or were too large: counted in the trace */
    uint64_t lost;        /* beyond the size, not written because of an error, or removed: not in the trace */
    uint64_t bytes;       /* of all files */
    const char* error;    /* of LEAT_CAPTURE_ENDED_BY_ERROR, else NULL; valid until the next call */
    const char* warnings; /* lines: which tracepoints are not captured, and why; that files were removed; or NULL */
};
LEAT_EXPORT void leat_capture_get_result(const struct leat_capture* capture, struct leat_capture_result* result);

/* Of a capture that is not over: stops it and writes what is left, buffers that are out included, which may wait for
 * the disk; so first let writes that are under way end. NULL does nothing. In a child of fork() it gives back memory
 * and descriptors, and nothing else. */
LEAT_EXPORT void leat_capture_free(struct leat_capture* capture);

#ifdef __cplusplus
}
#endif

#endif
