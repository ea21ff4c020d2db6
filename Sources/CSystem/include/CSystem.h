// Kernel calls that Swift cannot import: variadic functions, macros and unions.
#ifndef CSYSTEM_H
#define CSYSTEM_H

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

// epoll_data is a union. It stores the number of the watched descriptor.
static inline int csystem_epoll_control(int epoll, int operation, int descriptor, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data.u64 = data};
    return epoll_ctl(epoll, operation, descriptor, &event);
}

// open and fcntl are variadic.
static inline int csystem_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

// send and recv without glibc's cancellation points, which cost two atomic operations each in a program with threads. They return a count,
// or -1 with errno. A closed connection raises no signal.
ssize_t csystem_send(int descriptor, const void *bytes, size_t count);
ssize_t csystem_receive(int descriptor, void *bytes, size_t count);

// Whether a connection is open and the peer has sent nothing that is unread.
int csystem_is_quiet(int descriptor);

int csystem_is_tcp(int descriptor);

// Bytes in the kernel's send buffer of a TCP socket that the peer has not acknowledged.
int csystem_unacknowledged(int descriptor);

// Returns another descriptor of an open file, closed on exec; -1 if none is available.
static inline int csystem_duplicate(int descriptor) { return fcntl(descriptor, F_DUPFD_CLOEXEC, 0); }

// Accepts a connection, non-blocking and closed on exec. accept4 is declared under _GNU_SOURCE only.
int csystem_accept(int descriptor, struct sockaddr *address, socklen_t *length);

// Send or receive descriptors with bytes. One call takes at most CSYSTEM_DESCRIPTORS, because the kernel's limit is 253. Descriptors arrive
// with the first of the bytes, closed on exec. Both calls return the number of bytes, or -1 with errno.
enum { CSYSTEM_DESCRIPTORS = 200 };
ssize_t csystem_send_descriptors(int socket, const void *bytes, size_t count, const int *descriptors, int descriptor_count);
// `descriptors` has space for CSYSTEM_DESCRIPTORS.
ssize_t csystem_receive_descriptors(int socket, void *bytes, size_t count, int *descriptors, int *descriptor_count);

// User of the process at the other end of a Unix socket; -1 if unknown.
int csystem_peer_user(int socket, uid_t *user);

// Descriptor of a process, which is readable once the process has ended; -1 with errno, also before Linux 5.3.
int csystem_process_descriptor(pid_t process);

// Closes all descriptors from this one on in a spawned process. posix_spawn_file_actions_addclosefrom_np is declared under _GNU_SOURCE only.
int csystem_close_from(posix_spawn_file_actions_t *actions, int descriptor);

// Creates a file in memory that exists as long as a descriptor of it is open; -1 with errno.
int csystem_memory_file(const char *name);

// Reserves a file's blocks, so that a later write through the mapping cannot fail for lack of space.
int csystem_allocate(int descriptor, off_t length);

// Whether all pages of a mapping that hold these bytes are in memory: reading them then does not wait for the disk. 1 if the kernel does
// not report it.
int csystem_is_in_memory(const void *start, size_t count);

// Reads these pages into memory. Waits for the disk.
void csystem_bring_in(const void *start, size_t count);

// Guards a mapping. A page that cannot be read, because the file was truncated or the disk fails, reads as zeros instead of ending the
// process (SIGBUS). Call csystem_forget_mapping before the mapping is unmapped.
void csystem_guard_mapping(const void *start, size_t size);
void csystem_forget_mapping(const void *start);

// Restores these settings of the terminal at standard input when SIGTERM, SIGHUP or SIGINT ends the process.
void csystem_keep_terminal(const struct termios *settings);

// Number of cores on which this process may run (sched_getaffinity); at least 1.
int csystem_allowed_cores(void);

/// Lowers the scheduling priority of the calling thread below that of the other threads, permanently.
void csystem_lower_priority(void);

// Lets the kernel reclaim mapped pages of code and constants. Pages that are used again are read from the file cache.
void csystem_release_program_pages(void);

// Returns large blocks to the kernel as soon as they are freed. By default glibc keeps as much as was ever freed at once.
void csystem_return_large_memory(void);

// Returns all free memory to the kernel. For 60 MB in small blocks this takes 15 ms, during which allocations in other threads may wait.
void csystem_return_free_memory(void);

#endif
