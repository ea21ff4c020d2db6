// Functions that cannot be static inline in the header: glibc declares the calls under _GNU_SOURCE only.
#define _GNU_SOURCE
#include "CSystem.h"

#include <link.h>
#include <linux/sockios.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

int csystem_accept(int descriptor, struct sockaddr *address, socklen_t *length) {
    return accept4(descriptor, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int csystem_allocate(int descriptor, off_t length) { return posix_fallocate(descriptor, 0, length); }

// glibc's syscall() sets errno, as send and recv do.
ssize_t csystem_send(int descriptor, const void *bytes, size_t count) {
    return syscall(SYS_sendto, descriptor, bytes, count, MSG_NOSIGNAL, 0, 0);
}

ssize_t csystem_receive(int descriptor, void *bytes, size_t count) { return syscall(SYS_recvfrom, descriptor, bytes, count, 0, 0, 0); }

int csystem_is_quiet(int descriptor) {
    char byte;
    return syscall(SYS_recvfrom, descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT, 0, 0) < 0 && errno == EAGAIN;
}

int csystem_is_tcp(int descriptor) {
    int protocol = 0;
    socklen_t length = sizeof protocol;
    return getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 && protocol == IPPROTO_TCP;
}

int csystem_unacknowledged(int descriptor) {
    int count = 0;
    return syscall(SYS_ioctl, descriptor, SIOCOUTQ, &count) < 0 ? 0 : count;
}

int csystem_allowed_cores(void) {
    // The kernel's CPU mask may be larger than ours, so ours grows until it fits.
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

void csystem_return_free_memory(void) { malloc_trim(0); }

static int release_object(struct dl_phdr_info *object, size_t size, void *ignored) {
    (void)size, (void)ignored;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int index = 0; index < object->dlpi_phnum; index++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[index];
        // Segments that are writable, or were during relocation (RELRO), differ from the file.
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W)) continue;
        size_t start = (object->dlpi_addr + part->p_vaddr) & ~(page - 1);
        size_t end = (object->dlpi_addr + part->p_vaddr + part->p_memsz) & ~(page - 1);
        if (end > start) madvise((void *)start, end - start, MADV_DONTNEED);
    }
    return 0;
}

void csystem_release_program_pages(void) { dl_iterate_phdr(release_object, 0); }

static size_t page_size(void) {
    static _Atomic size_t size;
    size_t known = atomic_load_explicit(&size, memory_order_relaxed);
    if (known == 0) atomic_store_explicit(&size, known = (size_t)sysconf(_SC_PAGESIZE), memory_order_relaxed);
    return known;
}

// Returns the start of the pages that contain `count` bytes from `start`, and their length.
static uintptr_t whole_pages(const void *start, size_t count, size_t *length) {
    uintptr_t page = page_size(), first = (uintptr_t)start & ~(page - 1);
    *length = ((uintptr_t)start + count - first + page - 1) & ~(page - 1);
    return first;
}

int csystem_is_in_memory(const void *start, size_t count) {
    enum { PIECE = 512 };
    unsigned char pages[PIECE];
    size_t length, page = page_size();
    uintptr_t at = whole_pages(start, count, &length);
    if (count == 0) return 1;
    while (length > 0) {
        size_t piece = length < PIECE * page ? length : PIECE * page;
        if (mincore((void *)at, piece, pages) != 0) return 1;
        for (size_t index = 0; index < piece / page; index++) {
            if (!(pages[index] & 1)) return 0;
        }
        at += piece;
        length -= piece;
    }
    return 1;
}

void csystem_bring_in(const void *start, size_t count) {
    size_t length, page = page_size();
    uintptr_t first = whole_pages(start, count, &length);
    if (count == 0) return;
#ifdef MADV_POPULATE_READ
    // Linux 5.14 and later. Reads exactly this range ahead.
    if (madvise((void *)first, length, MADV_POPULATE_READ) == 0) return;
#endif
    madvise((void *)first, length, MADV_WILLNEED);
    for (size_t at = 0; at < length; at += page) (void)*(const volatile char *)(first + at);
}

// Guarded mappings. Never freed, because the signal handler may be reading them; a forgotten one is reused.
struct guarded {
    _Atomic(uintptr_t) start;
    _Atomic(size_t) size;
    struct guarded *next;
};

static _Atomic(struct guarded *) guarded;
static struct sigaction before;
static _Atomic int is_handling;

static void read_failed(int number, siginfo_t *information, void *ignored) {
    (void)ignored;
    uintptr_t address = (uintptr_t)information->si_addr;
    for (struct guarded *one = atomic_load(&guarded); one; one = one->next) {
        uintptr_t start = atomic_load(&one->start);
        if (start == 0 || address - start >= atomic_load(&one->size)) continue;
        void *page = (void *)(address & ~(page_size() - 1));
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        if (mmap(page, page_size(), PROT_READ, flags, -1, 0) != MAP_FAILED) return;
    }
    // Not a guarded mapping: the access is repeated and meets the previous handler.
    sigaction(number, &before, NULL);
}

void csystem_guard_mapping(const void *start, size_t size) {
    page_size();
    if (!atomic_exchange(&is_handling, 1)) {
        struct sigaction action = {.sa_sigaction = read_failed, .sa_flags = SA_SIGINFO | SA_RESTART};
        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, &before);
    }
    for (struct guarded *one = atomic_load(&guarded); one; one = one->next) {
        // Claimed by its size first: the handler skips it until the start is set.
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong(&one->start, &none, 1)) {
            atomic_store(&one->size, size);
            atomic_store(&one->start, (uintptr_t)start);
            return;
        }
    }
    struct guarded *new = malloc(sizeof *new);
    if (!new) return;
    atomic_init(&new->start, (uintptr_t)start);
    atomic_init(&new->size, size);
    struct guarded *first = atomic_load(&guarded);
    do { new->next = first; } while (!atomic_compare_exchange_weak(&guarded, &first, new));
}

void csystem_forget_mapping(const void *start) {
    for (struct guarded *one = atomic_load(&guarded); one; one = one->next) {
        uintptr_t own = (uintptr_t)start;
        if (atomic_compare_exchange_strong(&one->start, &own, 0)) return;
    }
}

void csystem_lower_priority(void) {
    // On Linux each thread has its own nice value. With 10, the thread gets about a tenth of a core while a loop is busy.
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10);
}

enum { DESCRIPTORS = CSYSTEM_DESCRIPTORS };

ssize_t csystem_send_descriptors(int socket, const void *bytes, size_t count, const int *descriptors, int descriptor_count) {
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
        struct cmsghdr header;
    } control = {0};
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor_count > DESCRIPTORS) {
        errno = EINVAL;
        return -1;
    }
    if (descriptor_count > 0) {
        size_t size = (size_t)descriptor_count * sizeof(int);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size)};
        memcpy(CMSG_DATA(header), descriptors, size);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t csystem_receive_descriptors(int socket, void *bytes, size_t count, int *descriptors, int *descriptor_count) {
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    *descriptor_count = 0;
    ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (received < 0) return received;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        int here = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        // The kernel's buffer holds no more descriptors.
        memcpy(descriptors + *descriptor_count, CMSG_DATA(header), (size_t)here * sizeof(int));
        *descriptor_count += here;
    }
    return received;
}

int csystem_peer_user(int socket, uid_t *user) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return -1;
    *user = peer.uid;
    return 0;
}

int csystem_process_descriptor(pid_t process) { return (int)syscall(SYS_pidfd_open, process, 0); }

int csystem_close_from(posix_spawn_file_actions_t *actions, int descriptor) {
    return posix_spawn_file_actions_addclosefrom_np(actions, descriptor);
}

int csystem_memory_file(const char *name) { return memfd_create(name, MFD_CLOEXEC); }

// Written once, before the handler is installed.
static struct termios kept_terminal;

static void put_terminal_back(int signal) {
    tcsetattr(STDIN_FILENO, TCSANOW, &kept_terminal);
    // SA_RESETHAND has restored the default action; the signal is delivered again when this function returns.
    raise(signal);
}

void csystem_keep_terminal(const struct termios *settings) {
    kept_terminal = *settings;
    struct sigaction action = {.sa_handler = put_terminal_back, .sa_flags = SA_RESETHAND};
    const int ending[] = {SIGTERM, SIGHUP, SIGINT};
    for (size_t index = 0; index < sizeof ending / sizeof *ending; index++) sigaction(ending[index], &action, NULL);
}
