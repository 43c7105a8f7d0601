/* The libraries that a program has loaded, for who begins to record later: the sticky events "leat_statedump:*". Their
 * names, fields and types are those of LTTng's "lttng_ust_statedump:*" ([LTTng-2.13], lttng-ust(3)). There is no
 * "start" and no "end", as a session gets all of them at once. */
#ifndef LEAT_PRELOAD_STATEDUMP_H
#define LEAT_PRELOAD_STATEDUMP_H

/* Sets the values of libraries that have come, and forgets those that have gone. Any thread; in forked children.
 * Allocates nothing; preserves errno. */
void note_libraries(void);

#endif
