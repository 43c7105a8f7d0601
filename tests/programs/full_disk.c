/* Preloaded into a recorder: its disk has no room for the second piece of metadata, and then has room again. */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t writev(int fd, const struct iovec* parts, int count) {
    static int single_parts;
    if (count == 1 && ++single_parts == 2) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_writev, fd, parts, count);
}
