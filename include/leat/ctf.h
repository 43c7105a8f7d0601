/* Traces on disk, for programs: any trace of CTF 1.8 or 2, of Leat, LTTng or others, event by event or as columns.
 *
 * For C11 and C++17; <leat/ctf.hpp> has the same as classes, and the Python module `leat` for scripts. Link libleat-ctf
 * (pkg-config leat-ctf).
 *
 *     char error[LEAT_CTF_ERROR_SIZE];
 *     const char *path = "my-trace";
 *     struct leat_ctf_reader *reader = leat_ctf_open(&path, 1, NULL, error);
 *     if (reader == NULL) fprintf(stderr, "%s\n", error);
 *     while (leat_ctf_next(reader) > 0)
 *         printf("%s %" PRIi64 "\n", leat_ctf_event_name(reader), leat_ctf_integer(leat_ctf_find(reader, "size")));
 *     if (leat_ctf_error(reader) != NULL) fprintf(stderr, "%s\n", leat_ctf_error(reader));
 *     leat_ctf_close(reader);
 *
 * The events of all traces come in the order of their times, as `leat view` shows them. Files are mapped, and nothing
 * is written to them. No input does harm: what cannot be read is an error, where it is found. `leat repair` makes a
 * trace of what can be read.
 *
 * A reader is for one thread at a time; several readers may be used at once. None is for signal handlers. The first one
 * installs a handler of SIGBUS for the process, for good, so that files which somebody shortens meanwhile do not end
 * it; faults elsewhere go to whoever had the signal before. Threads that read must not block this signal, and who
 * installs another handler later must call this one. */
#ifndef LEAT_CTF_H
#define LEAT_CTF_H

#include <leat/abi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct leat_ctf_reader;

/* Which events to read. Begin with LEAT_CTF_OPTIONS. Everything is copied. */
struct leat_ctf_options {
    size_t size;        /* of this struct, as the program was compiled */
    const char* filter; /* as `leat view --filter`: "$ctx.vpid == 42 && key == \"user*\"". NULL: all */
    int64_t begin_ns;   /* since the clock's origin, which is 1970 for most. INT64_MIN: from the first event on */
    int64_t end_ns;     /* the time itself is in the range. INT64_MAX: to the last event */
};
#define LEAT_CTF_OPTIONS \
    { sizeof(struct leat_ctf_options), 0, INT64_MIN, INT64_MAX }

#define LEAT_CTF_ERROR_SIZE 512

/* Opens all traces in or below these directories. `options` may be NULL. NULL: `error`, LEAT_CTF_ERROR_SIZE bytes or
 * NULL, gets a line that says why: no trace, metadata that cannot be read, a filter that names no field. */
LEAT_EXPORT struct leat_ctf_reader* leat_ctf_open(const char* const* paths, size_t path_count,
                                                  const struct leat_ctf_options* options, char* error);
/* NULL: does nothing. */
LEAT_EXPORT void leat_ctf_close(struct leat_ctf_reader* reader);

/* Goes to the next event. 1: there is one; 0: the traces have ended; -1: leat_ctf_error() says what cannot be read, and
 * so says every further call until leat_ctf_seek(). A packet that is cut short is told of at the end, and so is a
 * directory that may not be read. */
LEAT_EXPORT int leat_ctf_next(struct leat_ctf_reader* reader);
/* The next event will be the first at this time or later, of those that were asked for. It may lie before the current
 * one. Packets before it are not read. 0, or -1: there are events without a time, and all is as before. */
LEAT_EXPORT int leat_ctf_seek(struct leat_ctf_reader* reader, int64_t time_ns);
/* Afterwards `is_wanted(data)` is called now and then while events are looked at, by the thread that reads. Anything
 * but 0 ends the reading with the error "interrupted", as one that cannot be read: the next filter may take hours to
 * find something. NULL: never, as at first. It may not use the reader. */
LEAT_EXPORT void leat_ctf_set_interrupt(struct leat_ctf_reader* reader, int (*is_wanted)(void* data), void* data);
/* A line that says what went wrong in the last call that could tell; NULL: nothing. Valid until the next call. */
LEAT_EXPORT const char* leat_ctf_error(const struct leat_ctf_reader* reader);

/* What the traces say that they do not have, up to the current event. leat_ctf_seek() begins to count anew. */
struct leat_ctf_losses {
    uint64_t events;  /* that the tracer discarded */
    uint64_t packets; /* that the tracer discarded, the network lost, or somebody removed */
    uint64_t unknown; /* times that an unknown number of events was discarded */
};
LEAT_EXPORT void leat_ctf_get_losses(const struct leat_ctf_reader* reader, struct leat_ctf_losses* losses);

/* The current event. All that is returned is valid until the next call that goes on to another one. Without an event,
 * there is nothing: NULL, or 0. */

LEAT_EXPORT const char* leat_ctf_event_name(const struct leat_ctf_reader* reader);
LEAT_EXPORT uint64_t leat_ctf_event_id(const struct leat_ctf_reader* reader);
/* These return 1, or 0 if the event has none. The time is since the clock's origin; cycles are the clock's own. */
LEAT_EXPORT int leat_ctf_event_time(const struct leat_ctf_reader* reader, int64_t* time_ns);
LEAT_EXPORT int leat_ctf_event_cycles(const struct leat_ctf_reader* reader, uint64_t* cycles);
LEAT_EXPORT int leat_ctf_event_log_level(const struct leat_ctf_reader* reader,
                                         int64_t* level); /* 0 EMERG to 14 DEBUG */
/* The first file of the event's stream, and its number, if it has one. */
LEAT_EXPORT const char* leat_ctf_event_stream(const struct leat_ctf_reader* reader);
LEAT_EXPORT int leat_ctf_event_stream_id(const struct leat_ctf_reader* reader, uint64_t* id);
/* The environment of the event's trace: "hostname", "vpid", "tracer_name". NULL, or 0: there is no such text, or no
 * such number. */
LEAT_EXPORT const char* leat_ctf_environment_text(const struct leat_ctf_reader* reader, const char* name);
LEAT_EXPORT int leat_ctf_environment_number(const struct leat_ctf_reader* reader, const char* name, int64_t* number);

/* Its fields. Functions that take a value take NULL, too, and say that there is nothing. */

struct leat_ctf_value;

enum leat_ctf_scope {
    LEAT_CTF_PACKET_CONTEXT, /* cpu_id */
    LEAT_CTF_EVENT_CONTEXT,  /* of all events of the stream: vpid, procname */
    LEAT_CTF_OWN_CONTEXT,    /* of this kind of event */
    LEAT_CTF_FIELDS          /* the payload */
};

/* A struct with the fields of the scope; NULL: the event has no such scope. */
LEAT_EXPORT const struct leat_ctf_value* leat_ctf_get_scope(struct leat_ctf_reader* reader, enum leat_ctf_scope scope);
/* The field of that name: in the payload, or else in a context, in this order of the scopes. */
LEAT_EXPORT const struct leat_ctf_value* leat_ctf_find(struct leat_ctf_reader* reader, const char* name);

enum leat_ctf_kind {
    LEAT_CTF_NONE, /* no value; or a variant without a choice */
    LEAT_CTF_SIGNED,
    LEAT_CTF_UNSIGNED,
    LEAT_CTF_REAL,
    LEAT_CTF_TEXT,   /* bytes, for the most part UTF-8 */
    LEAT_CTF_STRUCT, /* has members */
    LEAT_CTF_ARRAY   /* has elements */
};

/* A variant counts as what it holds. */
LEAT_EXPORT enum leat_ctf_kind leat_ctf_get_kind(const struct leat_ctf_value* value);
/* As people know it, without the underscore that the metadata may put in front; "" for elements. */
LEAT_EXPORT const char* leat_ctf_name(const struct leat_ctf_value* value);
/* Of another kind: 0. Of LEAT_CTF_UNSIGNED, leat_ctf_integer() gives the same 64 bits. */
LEAT_EXPORT int64_t leat_ctf_integer(const struct leat_ctf_value* value);
LEAT_EXPORT double leat_ctf_real(const struct leat_ctf_value* value); /* of integers, the nearest */
/* `size`, if not NULL, gets the number of bytes. There may be no NUL behind them. Of another kind: NULL and 0. */
LEAT_EXPORT const char* leat_ctf_text(const struct leat_ctf_value* value, size_t* size);
/* Integers of an enum have labels: one, none, or several if its ranges overlap. Returns how many there are (at most 64
 * are found); the first `capacity` are put into `labels`. */
LEAT_EXPORT int leat_ctf_is_enum(const struct leat_ctf_value* value);
LEAT_EXPORT size_t leat_ctf_labels(const struct leat_ctf_value* value, const char** labels, size_t capacity);

/* Members and elements, in their order:
 *
 *     const struct leat_ctf_value *part = leat_ctf_first_part(value);
 *     for (size_t i = 0; i < leat_ctf_part_count(value); ++i, part = leat_ctf_next_part(part)) use(part);
 *
 * The next part of the last one must not be used. */
LEAT_EXPORT size_t leat_ctf_part_count(const struct leat_ctf_value* value);
LEAT_EXPORT const struct leat_ctf_value* leat_ctf_first_part(const struct leat_ctf_value* value); /* NULL: none */
LEAT_EXPORT const struct leat_ctf_value* leat_ctf_next_part(const struct leat_ctf_value* value);
/* The member of that name of a struct; NULL: it has none. */
LEAT_EXPORT const struct leat_ctf_value* leat_ctf_member(const struct leat_ctf_value* value, const char* name);

/* Events as a table, a column for each field: the fastest way to many events. */

enum leat_ctf_column_type {
    LEAT_CTF_COLUMN_INT64,  /* all integers but unsigned ones of 64 bits */
    LEAT_CTF_COLUMN_UINT64, /* unsigned integers of 64 bits */
    LEAT_CTF_COLUMN_DOUBLE,
    LEAT_CTF_COLUMN_TEXT /* text and labels of enums; else what `leat view --format=csv` writes there */
};

struct leat_ctf_string {
    const char* bytes; /* without a NUL */
    size_t size;
};

/* A column has one type, whichever events are read. Where events that the filter may take disagree on it, it is text.
 */
struct leat_ctf_column {
    const char* name;
    enum leat_ctf_column_type type;
    const void* data;          /* of each row: an int64_t, uint64_t or double; of text, a uint64_t into `texts` */
    const uint8_t* is_missing; /* of each row: 1 if the event has no such field; its data is then 0. NULL: none is */
    const struct leat_ctf_string* texts;
    size_t text_count;
};

struct leat_ctf_columns;

/* Reads up to `max_rows` events from the next one on. `names` are as those of `leat view --columns`: "time_ns", "name",
 * "log_level", "$ctx.vpid", "key"; NULL: time_ns, name, and all contexts and fields. Fewer rows: the traces have ended,
 * or what comes next cannot be read, which leat_ctf_error() says. NULL: an error, and no row: if there is no memory for
 * them, ask for fewer at once, after a leat_ctf_seek(). To be freed with
 * leat_ctf_free_columns(), before or after the reader. */
LEAT_EXPORT struct leat_ctf_columns* leat_ctf_read_columns(struct leat_ctf_reader* reader, const char* const* names,
                                                           size_t name_count, uint64_t max_rows);
LEAT_EXPORT uint64_t leat_ctf_row_count(const struct leat_ctf_columns* columns);
LEAT_EXPORT size_t leat_ctf_column_count(const struct leat_ctf_columns* columns);
/* NULL: there are not so many. Valid as long as the columns. */
LEAT_EXPORT const struct leat_ctf_column* leat_ctf_get_column(const struct leat_ctf_columns* columns, size_t number);
LEAT_EXPORT void leat_ctf_free_columns(struct leat_ctf_columns* columns);

#ifdef __cplusplus
}
#endif

#endif
