// A failing disk, for LD_PRELOAD. While the file that DISK_FAULT names exists, creating and writing files in DISK_FAULT_DIRECTORY fails.
// The file contains the errno.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int fault(void) {
    const char *flag = getenv("DISK_FAULT");
    char text[16] = "";
    int file = flag ? (int)syscall(SYS_openat, AT_FDCWD, flag, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    if (syscall(SYS_read, file, text, sizeof text - 1) < 0) text[0] = 0;
    syscall(SYS_close, file);
    return atoi(text);
}

static int is_below(const char *path) {
    const char *directory = getenv("DISK_FAULT_DIRECTORY");
    return directory && strncmp(path, directory, strlen(directory)) == 0;
}

static int is_ours(int file) {
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return readlink(link, path, sizeof path - 1) > 0 && is_below(path);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
    va_end(rest);
    int error = flags & O_CREAT && is_below(path) ? fault() : 0;
    if (error) {
        errno = error;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int posix_fallocate(int file, off_t start, off_t length) {
    int error = is_ours(file) ? fault() : 0;
    if (error) return error;
    return syscall(SYS_fallocate, file, 0, start, length) == 0 ? 0 : errno;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    int error = is_ours(file) ? fault() : 0;
    if (error) {
        errno = error;
        return -1;
    }
    return syscall(SYS_pwrite64, file, bytes, count, offset);
}

int fdatasync(int file) {
    int error = is_ours(file) ? fault() : 0;
    if (error) {
        errno = error;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, file);
}
