// The kernel's calls that Swift cannot reach as they stand: variadic ones, macros, and unions.
#ifndef CSYSTEM_H
#define CSYSTEM_H

#include <errno.h>
#include <fcntl.h>
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

// epoll_data is a union: the watched descriptor's number is what we keep in it.
static inline int csystem_epoll_control(int epoll, int operation, int descriptor, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data.u64 = data};
    return epoll_ctl(epoll, operation, descriptor, &event);
}

// open and fcntl are variadic.
static inline int csystem_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

// send and recv without glibc's cancellation points, which cost two atomic operations each in a program with threads. They return a
// count, or -1 with errno. A peer that is gone raises no signal.
ssize_t csystem_send(int descriptor, const void *bytes, size_t count);
ssize_t csystem_receive(int descriptor, void *bytes, size_t count);

// Whether a connection stands and its peer has said nothing that waits to be read.
int csystem_is_quiet(int descriptor);

int csystem_is_tcp(int descriptor);

// Of the bytes that a TCP socket's kernel was handed, those that the peer's has not said to have.
int csystem_unacknowledged(int descriptor);

// Another number for the same open connection, closed on exec; -1 where there is none left.
static inline int csystem_duplicate(int descriptor) { return fcntl(descriptor, F_DUPFD_CLOEXEC, 0); }

// A new connection, non-blocking and closed on exec: accept4 is declared under _GNU_SOURCE only.
int csystem_accept(int descriptor, struct sockaddr *address, socklen_t *length);

// Sends descriptors beside bytes, or takes them: CSYSTEM_DESCRIPTORS at most with one call, since the kernel takes 253. They arrive with the first
// of the bytes, closed on exec. Both return the count of the bytes, or -1 with errno.
enum { CSYSTEM_DESCRIPTORS = 200 };
ssize_t csystem_send_descriptors(int socket, const void *bytes, size_t count, const int *descriptors, int descriptor_count);
// `descriptors` has room for CSYSTEM_DESCRIPTORS.
ssize_t csystem_receive_descriptors(int socket, void *bytes, size_t count, int *descriptors, int *descriptor_count);

// The user whose process is at the other end of a Unix socket; -1 where that is not known.
int csystem_peer_user(int socket, uid_t *user);

// A file that lies in memory only, for as long as somebody has it open; -1 with errno.
int csystem_memory_file(const char *name);

// Reserves a file's blocks, so that a later write through the mapping cannot fail for lack of space.
int csystem_allocate(int descriptor, off_t length);

// Whether all of a mapping's pages that hold these bytes are in memory: then reading them does not wait for the disk. 1 also where the kernel
// does not tell.
int csystem_is_in_memory(const void *start, size_t count);

// Reads them in, and waits for the disk.
void csystem_bring_in(const void *start, size_t count);

// From now on a page of this mapping that cannot be read, since its file was cut short or the disk fails, is full of zeros instead of ending
// the process (SIGBUS); until it is forgotten, which must be before it is unmapped.
void csystem_guard_mapping(const void *start, size_t size);
void csystem_forget_mapping(const void *start);

// From now on the settings of the terminal at standard input are put back when SIGTERM, SIGHUP or SIGINT ends the process.
void csystem_keep_terminal(const struct termios *settings);

// The cores on which this process may run (sched_getaffinity); at least 1.
int csystem_allowed_cores(void);

/// The calling thread lets all others of the process go first, as far as the kernel has to choose; for good.
void csystem_lower_priority(void);

// Lets the kernel take back the pages of code and constants that are mapped: those that are used come back from the file cache by themselves.
void csystem_release_program_pages(void);

// Gives large pieces of memory back as soon as they are freed. By itself glibc keeps as much as was ever freed at once.
void csystem_return_large_memory(void);

// Gives all memory back that is free. 15 ms were measured for 60 MB in small pieces, in which others that allocate may wait.
void csystem_return_free_memory(void);

#endif
