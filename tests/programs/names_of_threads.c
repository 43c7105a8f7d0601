/* Changes its thread's name in both possible ways, and emits before and after. Prints nothing. */
#define _GNU_SOURCE
#include <leat/tracepoint.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NAMED_FIELDS(FIELD) FIELD(string, name, name)
LEAT_TRACEPOINT(named, step, LEAT_INFO, NAMED_FIELDS, const char* name);

static void step(const char* name) {
    usleep(2000); /* a name may be a millisecond old */
    leat_tracepoint(named, step, name);
}

int main(void) {
    prctl(PR_SET_NAME, "first");
    step("first");
    pthread_setname_np(pthread_self(), "second");
    step("second");
    prctl(PR_SET_NAME, "third");
    step("third");
    return 0;
}
