/* app_contexts: provides contexts, does what the lines on its stdin say, and emits seen:step after each.
 *
 *     number N        shop:request is N, shop:balance -N, shop:load N / 4; of this thread
 *     user TEXT       shop:user is that
 *     none            shop:user is none
 *     withdraw        shop:request is provided no more; "provide" again
 *     thread          a new thread does what the other lines say
 *     fork            likewise, a child
 *     nested          from now on, asking for shop:load emits seen:nested
 *     handler         the event comes from a signal handler */
#include <leat/context.h>
#include <leat/tracepoint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP_FIELDS(FIELD) FIELD(string, command, command)
LEAT_TRACEPOINT(seen, step, LEAT_INFO, STEP_FIELDS, const char* command);
#define N_FIELDS(FIELD) FIELD(integer, int32_t, n, n)
LEAT_TRACEPOINT(seen, nested, LEAT_INFO, N_FIELDS, int32_t n);

static _Thread_local uint64_t request;
static _Thread_local char user[200];
static _Thread_local int has_user;
static int is_nested;

LEAT_CONTEXT(shop, request, uint64, request)
LEAT_CONTEXT(shop, balance, int64, -(int64_t)request)
LEAT_CONTEXT(shop, user, string, has_user ? user : NULL)

static void get_load(const struct leat_context* context, struct leat_context_value* value) {
    if (is_nested) leat_tracepoint(seen, nested, 1);
    leat_context_set_double(value, (double)request / *(const int*)context->data);
}
static int four = 4;
static const struct leat_context load = {"shop:load", get_load, &four};

static void on_signal(int number) {
    (void)number;
    leat_tracepoint(seen, step, "handler");
}

static void* obey(void* unused);

static void run_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, obey, NULL) == 0) pthread_join(thread, NULL);
}

static void run_child(void) {
    const pid_t child = fork();
    if (child == 0) {
        obey(NULL);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void* obey(void* unused) {
    char line[300];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "number ", 7) == 0) request = strtoull(line + 7, NULL, 10);
        if (strncmp(line, "user ", 5) == 0) has_user = snprintf(user, sizeof user, "%s", line + 5) >= 0;
        if (strcmp(line, "none") == 0) has_user = 0;
        if (strcmp(line, "withdraw") == 0) leat_context_withdraw(&leat_context_shop_request);
        if (strcmp(line, "provide") == 0 && leat_context_provide(&leat_context_shop_request) != 0) abort();
        if (strcmp(line, "nested") == 0) is_nested = 1;
        if (strcmp(line, "thread") == 0) run_thread();
        if (strcmp(line, "fork") == 0) run_child();
        if (strcmp(line, "handler") == 0)
            raise(SIGUSR1);
        else
            leat_tracepoint(seen, step, line);
    }
    return unused;
}

int main(void) {
    static const struct leat_context wrong = {"no name", NULL, NULL};
    setvbuf(stdin, NULL, _IONBF, 0);
    signal(SIGUSR1, on_signal);
    if (leat_context_provide(&wrong) != -1) return 1;
    if (leat_context_provide(&leat_context_shop_request) != 0 ||
        leat_context_provide(&leat_context_shop_balance) != 0 || leat_context_provide(&leat_context_shop_user) != 0 ||
        leat_context_provide(&load) != 0)
        return 1;
    obey(NULL);
    return 0;
}
