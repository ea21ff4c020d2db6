// Runs the clock QUICK_CLOCK_SPEED times as fast for a program that loads this library with LD_PRELOAD. All its timeouts, intervals and
// timestamps follow the quick clock, so an outage of five minutes ends within seconds. Settings stay unchanged.
//
// QUICK_CLOCK_START is the real time in nanoseconds at which the quick clock and the real clock agree. Processes with equal starts agree on
// the time.
// QUICK_CLOCK_OFFSET names a file with eight bytes: the nanoseconds by which the time of day is set forward. It may change at any time.
// Not accelerated: the kernel's own timeouts (TCP), the processor, the disk, and the times of files.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int64_t speed = 1;
// Real times at the start, for clocks that count from the epoch and for clocks that count from boot.
static int64_t wall_start, monotonic_start, boot_start;

static const int64_t no_offset = 0;
static const volatile int64_t *offset = &no_offset;

static int64_t nanoseconds(struct timespec time) { return time.tv_sec * 1000000000LL + time.tv_nsec; }

static struct timespec timespec_of(int64_t count) {
    struct timespec time = {count / 1000000000LL, count % 1000000000LL};
    return time;
}

static int64_t real_time(clockid_t clock) {
    struct timespec time = {0, 0};
    syscall(SYS_clock_gettime, clock, &time);
    return nanoseconds(time);
}

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("QUICK_CLOCK_SPEED"), *start = getenv("QUICK_CLOCK_START");
    if (text) speed = atoll(text);
    if (speed < 1) speed = 1;
    int64_t now = real_time(CLOCK_REALTIME);
    wall_start = start ? atoll(start) : now;
    monotonic_start = real_time(CLOCK_MONOTONIC) - (now - wall_start);
    boot_start = real_time(CLOCK_BOOTTIME) - (now - wall_start);
    const char *path = getenv("QUICK_CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset = mapped;
    close(file);
}

// Returns the start of a clock; -1 for a clock that is not accelerated (processor time).
static int64_t start_of(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME: case CLOCK_REALTIME_COARSE: return wall_start;
    case CLOCK_MONOTONIC: case CLOCK_MONOTONIC_COARSE: case CLOCK_MONOTONIC_RAW: return monotonic_start;
    case CLOCK_BOOTTIME: return boot_start;
    default: return -1;
    }
}

// A positive wait stays positive, so that a loop does not spin.
static int64_t shortened(int64_t count) { return count > 0 ? (count + speed - 1) / speed : count; }

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    int64_t start = start_of(clock);
    if (result != 0 || start < 0) return result;
    *time = timespec_of(start + (nanoseconds(*time) - start) * speed + (start == wall_start ? *offset : 0));
    return result;
}

int gettimeofday(struct timeval *time, void *zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int timerfd_settime(int timer, int flags, const struct itimerspec *wanted, struct itimerspec *before) {
    static int (*original)(int, int, const struct itimerspec *, struct itimerspec *);
    if (!original) original = dlsym(RTLD_NEXT, "timerfd_settime");
    struct itimerspec real = *wanted;
    int64_t value = nanoseconds(wanted->it_value);
    if (value > 0 && (flags & TFD_TIMER_ABSTIME)) {
        // A time above thirty years counts from the epoch, because no machine has an uptime that long.
        int64_t start = value > 1000000000LL * 1000000000LL ? wall_start : monotonic_start;
        real.it_value = timespec_of(value > start ? start + (value - start) / speed + 1 : value);
    } else {
        real.it_value = timespec_of(shortened(value));
    }
    real.it_interval = timespec_of(shortened(nanoseconds(wanted->it_interval)));
    return original(timer, flags, &real, before);
}

int epoll_wait(int epoll, struct epoll_event *events, int count, int milliseconds) {
    static int (*original)(int, struct epoll_event *, int, int);
    if (!original) original = dlsym(RTLD_NEXT, "epoll_wait");
    return original(epoll, events, count, shortened(milliseconds));
}

int poll(struct pollfd *descriptors, nfds_t count, int milliseconds) {
    static int (*original)(struct pollfd *, nfds_t, int);
    if (!original) original = dlsym(RTLD_NEXT, "poll");
    return original(descriptors, count, shortened(milliseconds));
}

int nanosleep(const struct timespec *wanted, struct timespec *left) {
    struct timespec real = timespec_of(shortened(nanoseconds(*wanted)));
    return syscall(SYS_nanosleep, &real, left);
}

int sigtimedwait(const sigset_t *signals, siginfo_t *which, const struct timespec *wanted) {
    static int (*original)(const sigset_t *, siginfo_t *, const struct timespec *);
    if (!original) original = dlsym(RTLD_NEXT, "sigtimedwait");
    if (!wanted) return original(signals, which, wanted);
    struct timespec real = timespec_of(shortened(nanoseconds(*wanted)));
    return original(signals, which, &real);
}

int usleep(useconds_t microseconds) {
    struct timespec real = timespec_of(microseconds * 1000LL);
    return nanosleep(&real, NULL);
}

unsigned int sleep(unsigned int seconds) {
    struct timespec real = timespec_of(seconds * 1000000000LL);
    nanosleep(&real, NULL);
    return 0;
}
