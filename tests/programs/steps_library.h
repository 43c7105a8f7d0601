#ifndef LEAT_TESTS_STEPS_LIBRARY_H
#define LEAT_TESTS_STEPS_LIBRARY_H

#include <stdint.h>

/* Shared memory: what a program, its children and its library have done so far. */
struct step_counts {
    uint64_t emitted;   /* the number of the event that is on its way, or comes next */
    uint64_t evaluated; /* events whose arguments the tracer wanted */
    uint64_t child;     /* the process that the last fork made */
};

/* An argument of each event: its number. */
static inline uint64_t step_evaluated(struct step_counts* counts) {
    __atomic_store_n(&counts->evaluated, counts->evaluated + 1, __ATOMIC_RELEASE);
    return counts->emitted;
}

#endif
