/* Calls every function of the malloc family in a known way, and checks the result of each. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Keeps the compiler from removing calls. */
static void* volatile kept;
static volatile size_t too_much = PTRDIFF_MAX;

static void check(int is_good, const char* what) {
    if (is_good) return;
    fprintf(stderr, "allocate: %s\n", what);
    _exit(1);
}

static void sizes(void) {
    kept = malloc(1001);
    memset(kept, 7, 1001);
    kept = realloc(kept, 100001);
    check(((char*)kept)[1000] == 7, "realloc keeps the content");
    free(kept);
    kept = calloc(11, 1003);
    check(((char*)kept)[11 * 1003 - 1] == 0, "calloc gives zeros");
    free(kept);
    kept = memalign(256, 1004);
    check((uintptr_t)kept % 256 == 0, "memalign aligns");
    free(kept);
    void* aligned = NULL;
    check(posix_memalign(&aligned, 512, 1005) == 0 && (uintptr_t)aligned % 512 == 0, "posix_memalign aligns");
    free(aligned);
    kept = aligned_alloc(64, 1024);
    free(kept);
    kept = NULL;
    free(kept);
}

static void failures(void) {
    void* aligned = &aligned;
    errno = 0;
    check(posix_memalign(&aligned, 3, 1006) == EINVAL && errno == 0, "posix_memalign refuses 3, and keeps errno");
    check(malloc(too_much) == NULL && errno == ENOMEM, "malloc says ENOMEM");
    errno = 0;
    check(calloc(too_much, too_much) == NULL && errno == ENOMEM, "calloc sees the overflow");
    errno = E2BIG;
    kept = malloc(1007);
    free(kept);
    check(errno == E2BIG, "errno is kept");
}

static void* churn(void* argument) {
    for (int i = 0; i < 2000; ++i) {
        char* block = malloc((size_t)(i % 500) + 1);
        block[0] = 1;
        free(realloc(block, 700));
    }
    return argument;
}

static void threads(void) {
    pthread_t created[4];
    for (int i = 0; i < 4; ++i) pthread_create(&created[i], NULL, churn, NULL);
    for (int i = 0; i < 20; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            churn(NULL);
            _exit(0);
        }
        int status = 0;
        check(waitpid(child, &status, 0) == child && status == 0, "a child of a process with threads allocates");
    }
    for (int i = 0; i < 4; ++i) pthread_join(created[i], NULL);
}

int main(int argc, char** argv) {
    sizes();
    failures();
    if (argc > 1 && strcmp(argv[1], "threads") == 0) threads();
    puts("allocated");
    return 0;
}
