/* Locks, tries and unlocks one mutex in a known way, in two threads. Prints the mutex's address. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void* try_while_taken(void* argument) { return pthread_mutex_trylock(&mutex) == EBUSY ? argument : NULL; }

int main(void) {
    pthread_t thread;
    void* was_busy = NULL;
    errno = E2BIG;
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, try_while_taken, &mutex);
    pthread_join(thread, &was_busy);
    pthread_mutex_unlock(&mutex);
    if (was_busy == NULL || pthread_mutex_trylock(&mutex) != 0) return 1;
    pthread_mutex_unlock(&mutex);
    printf("0x%lX\n", (unsigned long)&mutex);
    return errno == E2BIG ? 0 : 2;
}
