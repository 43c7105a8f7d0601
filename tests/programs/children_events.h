/* The library of children.c, which has all its tracepoints. */
#ifndef CHILDREN_EVENTS_H
#define CHILDREN_EVENTS_H

#include <stdint.h>

void child_step(int32_t pid, int32_t tid);
void child_busy(void);

#endif
