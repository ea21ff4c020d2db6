// Counts calls of fsync and fdatasync, for LD_PRELOAD. The counter is the first eight bytes of the file that FLUSHES names.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic unsigned long long *count;

__attribute__((constructor)) static void open_count(void) {
    const char *path = getenv("FLUSHES");
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0 || ftruncate(file, sizeof *count) != 0) return;
    void *page = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) count = page;
    close(file);
}

static int flush(const char *name, int file) {
    int (*call)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (count) atomic_fetch_add(count, 1);
    return call(file);
}

int fsync(int file) { return flush("fsync", file); }
int fdatasync(int file) { return flush("fdatasync", file); }
