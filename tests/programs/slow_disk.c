/* Preloaded into a recorder: a disk that takes two seconds for each write of a packet. */
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t writev(int fd, const struct iovec* parts, int count) {
    if (count > 1) sleep(2);
    return syscall(SYS_writev, fd, parts, count);
}
