// What cannot be static inline in the header: calls that glibc declares under _GNU_SOURCE only.
#define _GNU_SOURCE
#include "CSystem.h"

int csystem_accept(int descriptor, struct sockaddr *address, socklen_t *length) {
    return accept4(descriptor, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int csystem_allocate(int descriptor, off_t length) { return posix_fallocate(descriptor, 0, length); }
