// Simulates a failing disk, for LD_PRELOAD. While the file named by DISK_FAULT exists, operations on files in DISK_FAULT_DIRECTORY fail or
// wait:
// - If the file holds an errno number, creating and writing files fails with it.
// - If the file holds "wait", writes wait until the file is removed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

// Reads the content of DISK_FAULT's file; empty if there is no file.
static void read_fault(char text[16]) {
    const char *flag = getenv("DISK_FAULT");
    memset(text, 0, 16);
    int file = flag ? (int)syscall(SYS_openat, AT_FDCWD, flag, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    if (syscall(SYS_read, file, text, 15) < 0) text[0] = 0;
    syscall(SYS_close, file);
}

// Returns the simulated errno and sets errno; 0 if none.
static int fault(void) {
    char text[16];
    read_fault(text);
    int error = atoi(text);
    if (error) errno = error;
    return error;
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

static void wait_for_disk(void) {
    // Not nanosleep(), which the quick clock shortens.
    struct timespec pause = {0, 10000000};
    char text[16];
    while (read_fault(text), strcmp(text, "wait") == 0) syscall(SYS_nanosleep, &pause, NULL);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
    va_end(rest);
    if (flags & O_CREAT && is_below(path) && fault()) return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int posix_fallocate(int file, off_t start, off_t length) {
    int error = is_ours(file) ? fault() : 0;
    if (error) return error;
    return syscall(SYS_fallocate, file, 0, start, length) == 0 ? 0 : errno;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    if (is_ours(file)) {
        wait_for_disk();
        if (fault()) return -1;
    }
    return syscall(SYS_pwrite64, file, bytes, count, offset);
}

int fdatasync(int file) {
    if (is_ours(file) && fault()) return -1;
    return (int)syscall(SYS_fdatasync, file);
}
