// A disk that accepts no writes to regular files, for LD_PRELOAD. It does so while the file that SLOW_DISK names exists.
// Writes wait if that file is empty, and fail otherwise.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    const char *flag = getenv("SLOW_DISK");
    struct timespec pause = {0, 10000000};
    struct stat status;
    while (flag && stat(flag, &status) == 0) {
        if (status.st_size > 0) {
            errno = EIO;
            return -1;
        }
        // Not nanosleep(), which the quick clock shortens.
        syscall(SYS_nanosleep, &pause, NULL);
    }
    return syscall(SYS_pwrite64, file, bytes, count, offset);
}
