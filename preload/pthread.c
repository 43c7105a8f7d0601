/* Mutexes, traced: events, fields and types of LTTng's liblttng-ust-pthread-wrapper ([LTTng-2.13], "Helpers"). Like
 * LTTng, we do not see timed locks and the mutexes inside condition variables.
 *
 * Any thread, from before the first constructor on; in forked children; as async-signal-safe as the function behind
 * ours. */
#include <dlfcn.h>
#include <errno.h>
#include <leat/tracepoint.h>
#include <pthread.h>
#include <stdbool.h>

#define REQUEST_FIELDS(FIELD) FIELD(integer_hex, uintptr_t, mutex, mutex)
#define STATUS_FIELDS(FIELD)                    \
    FIELD(integer_hex, uintptr_t, mutex, mutex) \
    FIELD(integer, int, status, status)
LEAT_TRACEPOINT(lttng_ust_pthread, pthread_mutex_lock_req, LEAT_DEBUG_LINE, REQUEST_FIELDS, const void* mutex);
LEAT_TRACEPOINT(lttng_ust_pthread, pthread_mutex_lock_acq, LEAT_DEBUG_LINE, STATUS_FIELDS, const void* mutex,
                int status);
LEAT_TRACEPOINT(lttng_ust_pthread, pthread_mutex_trylock, LEAT_DEBUG_LINE, STATUS_FIELDS, const void* mutex,
                int status);
LEAT_TRACEPOINT(lttng_ust_pthread, pthread_mutex_unlock, LEAT_DEBUG_LINE, STATUS_FIELDS, const void* mutex, int status);

/* These take the place of the functions behind ours, and look for them, until they have been found. */
static int early_lock(pthread_mutex_t* mutex);
static int early_trylock(pthread_mutex_t* mutex);
static int early_unlock(pthread_mutex_t* mutex);

typedef int mutex_function(pthread_mutex_t* mutex);

static struct {
    mutex_function* lock;
    mutex_function* trylock;
    mutex_function* unlock;
} next = {early_lock, early_trylock, early_unlock};

static void* find(const char* name) { return dlsym(RTLD_NEXT, name); }

static void set(mutex_function** function, void* found) {
    if (found != NULL) __atomic_store_n((void**)function, found, __ATOMIC_RELAXED);
}

/* Two threads may do this at once: both find the same. All are looked for before one is used: what dlsym() locks in
 * between, it must be able to unlock. */
static void find_next(void) {
    static _Thread_local bool is_finding __attribute__((tls_model("initial-exec")));
    if (is_finding) return;
    is_finding = true;
    const int saved_errno = errno;
    void* const lock = find("pthread_mutex_lock");
    void* const trylock = find("pthread_mutex_trylock");
    void* const unlock = find("pthread_mutex_unlock");
    set(&next.lock, lock);
    set(&next.trylock, trylock);
    set(&next.unlock, unlock);
    errno = saved_errno;
    is_finding = false;
}

static __attribute__((constructor(101))) void find_next_at_load(void) { find_next(); }

/* dlsym() may lock and unlock a mutex while it looks for these functions: both then do nothing. */
static int early_lock(pthread_mutex_t* mutex) {
    find_next();
    return next.lock == early_lock ? 0 : next.lock(mutex);
}

static int early_trylock(pthread_mutex_t* mutex) {
    find_next();
    return next.trylock == early_trylock ? 0 : next.trylock(mutex);
}

static int early_unlock(pthread_mutex_t* mutex) {
    find_next();
    return next.unlock == early_unlock ? 0 : next.unlock(mutex);
}

LEAT_EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) {
    leat_tracepoint(lttng_ust_pthread, pthread_mutex_lock_req, mutex);
    const int status = next.lock(mutex);
    leat_tracepoint(lttng_ust_pthread, pthread_mutex_lock_acq, mutex, status);
    return status;
}

LEAT_EXPORT int pthread_mutex_trylock(pthread_mutex_t* mutex) {
    const int status = next.trylock(mutex);
    leat_tracepoint(lttng_ust_pthread, pthread_mutex_trylock, mutex, status);
    return status;
}

LEAT_EXPORT int pthread_mutex_unlock(pthread_mutex_t* mutex) {
    const int status = next.unlock(mutex);
    leat_tracepoint(lttng_ust_pthread, pthread_mutex_unlock, mutex, status);
    return status;
}
