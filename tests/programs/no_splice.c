/* Preloaded: makes all file systems refuse bytes from a pipe. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t splice(int in, loff_t* in_offset, int out, loff_t* out_offset, size_t size, unsigned flags) {
    struct stat status;
    if (fstat(out, &status) == 0 && S_ISREG(status.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    return syscall(SYS_splice, in, in_offset, out, out_offset, size, flags);
}
