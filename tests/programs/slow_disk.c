/* Preloaded into a recorder: a disk that writes no packet as long as the file $LEAT_TEST_DISK_IS_BUSY is there, and
 * says by $LEAT_TEST_DISK_IS_ASKED that somebody waits for it. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t writev(int fd, const struct iovec* parts, int count) {
    if (count > 1) {
        close(open(getenv("LEAT_TEST_DISK_IS_ASKED"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        while (access(getenv("LEAT_TEST_DISK_IS_BUSY"), F_OK) == 0) usleep(1000);
    }
    return syscall(SYS_writev, fd, parts, count);
}
