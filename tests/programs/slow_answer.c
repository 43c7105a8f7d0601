/* Preloaded into a recorder: it stops for a second after a program has got its answer. */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
    const ssize_t sent = syscall(SYS_sendmsg, fd, message, flags);
    sleep(1);
    return sent;
}
