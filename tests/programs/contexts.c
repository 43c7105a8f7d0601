/* contexts: does what the lines on its stdin say, and after each emits seen:step and prints what it sees of itself, as
 * JSON.
 *
 *     emit           nothing else
 *     name TEXT      a new name for the thread
 *     group N        setresgid() to N, N + 1 and 0; "user" likewise
 *     unshare KIND   uts, ipc, net, mnt or cgroup: a namespace of its own, of the thread
 *     home           back to the UTS namespace of the start
 *     thread         a new thread does what the other lines say, and then the first one emits once more
 *     fork           likewise, a child
 *
 * The names are those of contexts. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <leat/tracepoint.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEP_FIELDS(FIELD) FIELD(string, command, command)
LEAT_TRACEPOINT(seen, step, LEAT_INFO, STEP_FIELDS, const char* command);

static const struct {
    const char* name;
    int flag;
} kNamespaces[] = {{"cgroup", CLONE_NEWCGROUP},
                   {"ipc", CLONE_NEWIPC},
                   {"mnt", CLONE_NEWNS},
                   {"net", CLONE_NEWNET},
                   {"pid", 0},
                   {"time", 0},
                   {"user", 0},
                   {"uts", CLONE_NEWUTS}};
enum { kNamespaceCount = sizeof kNamespaces / sizeof kNamespaces[0] };

static int uts_of_start;

static void check(int is_right, const char* what) {
    if (is_right) return;
    perror(what);
    _exit(1);
}

static void show(const char* command) {
    uid_t users[3];
    gid_t groups[3];
    char name[17] = "";
    leat_tracepoint(seen, step, command);
    check(getresuid(&users[0], &users[1], &users[2]) == 0, "getresuid");
    check(getresgid(&groups[0], &groups[1], &groups[2]) == 0, "getresgid");
    check(prctl(PR_GET_NAME, name) == 0, "prctl");
    printf("{\"vpid\": %d, \"vtid\": %d, \"procname\": \"%s\", \"pthread_id\": %lu", getpid(), gettid(), name,
           (unsigned long)pthread_self());
    printf(", \"vuid\": %u, \"veuid\": %u, \"vsuid\": %u", users[0], users[1], users[2]);
    printf(", \"vgid\": %u, \"vegid\": %u, \"vsgid\": %u", groups[0], groups[1], groups[2]);
    for (int i = 0; i < kNamespaceCount; ++i) {
        char path[64];
        struct stat status;
        snprintf(path, sizeof path, "/proc/thread-self/ns/%s", kNamespaces[i].name);
        printf(", \"%s_ns\": %lu", kNamespaces[i].name, stat(path, &status) == 0 ? (unsigned long)status.st_ino : 0);
    }
    puts("}");
    fflush(stdout);
}

static void unshare_kind(const char* kind) {
    for (int i = 0; i < kNamespaceCount; ++i)
        if (strcmp(kind, kNamespaces[i].name) == 0) check(unshare(kNamespaces[i].flag) == 0, "unshare");
}

static void* obey_all(void* unused);

static void hand_over_to_thread(void) {
    pthread_t thread;
    check(pthread_create(&thread, NULL, obey_all, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
}

/* The lines are read without a buffer, so that they are read once. */
static void hand_over_to_child(void) {
    const pid_t child = fork();
    if (child == 0) {
        obey_all(NULL);
        _exit(0);
    }
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, "waitpid");
}

static void obey(const char* command, const char* argument) {
    const unsigned id = (unsigned)strtoul(argument, NULL, 10);
    if (strcmp(command, "name") == 0) check(prctl(PR_SET_NAME, argument) == 0, "prctl");
    if (strcmp(command, "group") == 0) check(setresgid(id, id + 1, 0) == 0, "setresgid");
    if (strcmp(command, "user") == 0) check(setresuid(id, id + 1, 0) == 0, "setresuid");
    if (strcmp(command, "unshare") == 0) unshare_kind(argument);
    if (strcmp(command, "home") == 0) check(setns(uts_of_start, CLONE_NEWUTS) == 0, "setns");
    if (strcmp(command, "thread") == 0) hand_over_to_thread();
    if (strcmp(command, "fork") == 0) hand_over_to_child();
    show(command);
}

static void* obey_all(void* unused) {
    char* line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char* const space = strchr(line, ' ');
        if (space != NULL) *space = '\0';
        obey(line, space != NULL ? space + 1 : "");
    }
    free(line);
    return unused;
}

int main(void) {
    setvbuf(stdin, NULL, _IONBF, 0);
    uts_of_start = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
    obey_all(NULL);
    return 0;
}
