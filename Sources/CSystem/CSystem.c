// What cannot be static inline in the header: calls that glibc declares under _GNU_SOURCE only.
#define _GNU_SOURCE
#include "CSystem.h"
#include <link.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

int csystem_accept(int descriptor, struct sockaddr *address, socklen_t *length) {
    return accept4(descriptor, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int csystem_allocate(int descriptor, off_t length) { return posix_fallocate(descriptor, 0, length); }

// glibc's syscall() sets errno; the callers here read it as with the calls it stands for.
ssize_t csystem_send(int descriptor, const void *bytes, size_t count) {
    return syscall(SYS_sendto, descriptor, bytes, count, MSG_NOSIGNAL, 0, 0);
}

ssize_t csystem_receive(int descriptor, void *bytes, size_t count) { return syscall(SYS_recvfrom, descriptor, bytes, count, 0, 0, 0); }

int csystem_is_quiet(int descriptor) {
    char byte;
    return syscall(SYS_recvfrom, descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT, 0, 0) < 0 && errno == EAGAIN;
}

int csystem_allowed_cores(void) {
    // The kernel's mask may be larger than ours: ours grows until it fits.
    for (int count = 1024; count <= 1 << 20; count *= 2) {
        cpu_set_t *set = CPU_ALLOC(count);
        size_t size = CPU_ALLOC_SIZE(count);
        int cores = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (cores > 0) return cores;
    }
    return 1;
}

void csystem_return_large_memory(void) { mallopt(M_MMAP_THRESHOLD, 1 << 20); }

static int release_object(struct dl_phdr_info *object, size_t size, void *ignored) {
    (void)size, (void)ignored;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int index = 0; index < object->dlpi_phnum; index++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[index];
        // What can be written to, or was while it was linked (RELRO), holds what the file does not.
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W)) continue;
        size_t start = (object->dlpi_addr + part->p_vaddr) & ~(page - 1);
        size_t end = (object->dlpi_addr + part->p_vaddr + part->p_memsz) & ~(page - 1);
        if (end > start) madvise((void *)start, end - start, MADV_DONTNEED);
    }
    return 0;
}

void csystem_release_program_pages(void) { dl_iterate_phdr(release_object, 0); }
