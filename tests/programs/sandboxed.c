/* sandboxed prctl|seccomp exit|fork: forbids itself all system calls but those that it makes itself, on pain of death,
 * and then ends, perhaps after a child that does likewise. Its status is 7, and its child's 5. */
#define _GNU_SOURCE
#include <errno.h>
#include <leat/tracepoint.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

LEAT_TRACEPOINT(sandboxed, event, LEAT_INFO, LEAT_NO_FIELDS, void);

#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int forbid(const char* way) {
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   ALLOW(clone),
                                   ALLOW(clone3),
                                   ALLOW(set_robust_list),
                                   ALLOW(wait4),
                                   ALLOW(exit_group),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    if (strcmp(way, "prctl") == 0) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, ~0L, &program) != -1 || errno != EINVAL) return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0L, &program);
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    leat_tracepoint(sandboxed, event);
    if (forbid(argv[1]) != 0) return 3;
    if (strcmp(argv[2], "fork") == 0) {
        const pid_t child = fork();
        if (child == 0) exit(5);
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child) return 4;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 5) return 6;
    }
    return 7;
}
