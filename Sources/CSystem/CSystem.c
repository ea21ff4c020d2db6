// What cannot be static inline in the header: calls that glibc declares under _GNU_SOURCE only.
#define _GNU_SOURCE
#include "CSystem.h"
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
