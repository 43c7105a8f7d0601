/* Preloaded in front of the preload libraries: a dlsym() that allocates before it finds anything, as those of older C
 * libraries did. It frees all of that later, long after malloc was found. And it is one of those that lock a mutex. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char* blocks[5];

static void fail(const char* what) {
    if (write(STDERR_FILENO, what, strlen(what)) < 0) _exit(4);
    _exit(3);
}

static void allocate(void) {
    blocks[0] = malloc(100);
    blocks[1] = calloc(10, 10);
    for (int i = 0; i < 100; ++i) {
        if (blocks[1] == NULL || blocks[1][i] != 0) fail("calloc: not zero\n");
    }
    blocks[2] = memalign(128, 50);
    void* aligned = NULL;
    if (posix_memalign(&aligned, 4096, 60) != 0) fail("posix_memalign\n");
    blocks[3] = aligned;
    blocks[4] = malloc(10);
    if ((uintptr_t)blocks[2] % 128 != 0 || (uintptr_t)blocks[3] % 4096 != 0) fail("not aligned\n");
    memset(blocks[0], 'x', 100);
    memset(blocks[4], 'y', 10);
    free(malloc(20));
}

void* dlsym(void* handle, const char* name) {
    static void* (*real)(void*, const char*);
    if (real == NULL) real = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    if (blocks[0] == NULL && strcmp(name, "malloc") == 0) allocate();
    pthread_mutex_unlock(&mutex);
    return real(handle, name); /* a jump: RTLD_NEXT means the libraries after our caller */
}

__attribute__((destructor)) static void give_back(void) {
    if (blocks[0] == NULL) fail("dlsym was not called for malloc\n");
    char* grown = realloc(blocks[0], 5000);
    if (grown == NULL || grown[99] != 'x') fail("realloc: content lost\n");
    char* shrunk = realloc(blocks[4], 3);
    if (shrunk == NULL || shrunk[2] != 'y') fail("realloc: content lost\n");
    free(grown);
    free(shrunk);
    for (int i = 0; i < 5; ++i) free(blocks[i]);
}
