// Sends requests at a fixed rate that does not depend on the responses. Latency counts from the time at which a request was due. It thus
// includes the wait for a free connection (no coordinated omission).
//
//     openloop PORT CONNECTIONS RATE SECONDS FILE
//
// FILE has the requests, each terminated by NUL. They are sent in order, and repeated from the first. Each is sent over the connection that
// has been idle longest. Prints "ready" when all connections are open; then the numbers of due and finished requests, and the median,
// 99th percentile, 99.9th percentile and maximum latency, in microseconds. It ends at the end of its input. One thread, loopback, for
// benchmarks only.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 16384, ROOM = 1 << 18, SECOND = 1000000000 };

// Connections: socket, due time of the request, and the bytes of the response received so far.
static struct { int descriptor; long long due; size_t have, want; char head[2048]; } connections[CONNECTIONS];
// Idle connections, in a ring: the first one has been idle longest.
static int idle[CONNECTIONS], idle_first, idle_count;
static char buffer[ROOM];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * (long long)SECOND + time.tv_nsec;
}

static int compare(const void *left, const void *right) {
    unsigned a = *(const unsigned *)left, b = *(const unsigned *)right;
    return a < b ? -1 : a > b;
}

static void add_idle(int number) { idle[(idle_first + idle_count++) % CONNECTIONS] = number; }

static int take_idle(void) {
    int number = idle[idle_first];
    idle_first = (idle_first + 1) % CONNECTIONS;
    idle_count--;
    return number;
}

static void open_connection(int number, int port, int poll) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (unsigned)number};
    int descriptor = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    // Closing resets the connection, so that its local port is free at once.
    struct linger reset = {.l_onoff = 1};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event)) fail("epoll_ctl");
    connections[number].descriptor = descriptor;
    add_idle(number);
}

// Returns whether the response is complete.
static int receive(int number) {
    ssize_t count = recv(connections[number].descriptor, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return 0;
    if (count <= 0) fail("recv");
    size_t before = connections[number].have;
    connections[number].have += (size_t)count;
    if (!connections[number].want) {
        char *head = connections[number].head, *end, *length;
        size_t room = sizeof connections[number].head - 1;
        if (before < room) {
            size_t taken = (size_t)count < room - before ? (size_t)count : room - before;
            memcpy(head + before, buffer, taken);
            head[before + taken] = 0;
        }
        if (!(end = strstr(head, "\r\n\r\n"))) return 0;
        if (strncmp(head, "HTTP/1.1 200", 12)) fprintf(stderr, "  ! %.40s\n", head), exit(1);
        if (!(length = strcasestr(head, "\r\ncontent-length:"))) fprintf(stderr, "  ! no length\n"), exit(1);
        connections[number].want = (size_t)(end - head) + 4 + strtoul(length + 17, 0, 10);
    }
    return connections[number].have >= connections[number].want;
}

int main(int count, char **arguments) {
    if (count != 6) return 2;
    int port = atoi(arguments[1]), wanted = atoi(arguments[2]), poll = epoll_create1(0);
    double rate = atof(arguments[3]);
    long long due_count = (long long)(rate * atof(arguments[4])), next = 0, done = 0;
    FILE *file = fopen(arguments[5], "rb");
    if (!file || wanted > CONNECTIONS || due_count <= 0) fail(arguments[5]);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    char *text = malloc(size + 1), *at = text;
    rewind(file);
    if (!text || fread(text, 1, size, file) != size) fail("read");
    unsigned *taken = calloc((size_t)due_count, sizeof *taken);
    for (int number = 0; number < wanted; number++) {
        open_connection(number, port, poll);
        // The server's queue of new connections must not overflow.
        if (number % 256 == 255) usleep(10000);
    }
    printf("ready\n");
    fflush(stdout);
    long long begin = now() + SECOND / 20, end = begin + (long long)(atof(arguments[4]) * SECOND) + 60LL * SECOND;
    while (done < due_count && now() < end) {
        long long time = now();
        while (next < due_count && idle_count) {
            long long due = begin + (long long)((double)next / rate * SECOND);
            if (due > time) break;
            int number = take_idle();
            size_t length = strlen(at);
            if (send(connections[number].descriptor, at, length, MSG_NOSIGNAL) != (ssize_t)length) fail("send");
            connections[number].due = due;
            connections[number].have = connections[number].want = 0;
            at += length + 1;
            if (at >= text + size) at = text;
            next++;
        }
        long long wait = SECOND;
        if (next < due_count && idle_count) wait = begin + (long long)((double)next / rate * SECOND) - now();
        struct timespec limit = {.tv_sec = wait > 0 ? wait / SECOND : 0, .tv_nsec = wait > 0 ? wait % SECOND : 0};
        struct epoll_event events[64];
        int ready = epoll_pwait2(poll, events, 64, &limit, 0);
        if (ready < 0 && errno != EINTR) fail("epoll_pwait2");
        for (int place = 0; place < ready; place++) {
            int number = (int)events[place].data.u32;
            if (!receive(number)) continue;
            taken[done++] = (unsigned)((now() - connections[number].due) / 1000);
            add_idle(number);
        }
    }
    qsort(taken, (size_t)done, sizeof *taken, compare);
    if (!done) fail("no response");
    printf("%lld due %lld done p50 %u p99 %u p99.9 %u max %u\n", due_count, done, taken[done / 2], taken[done * 99 / 100],
           taken[done * 999 / 1000], taken[done - 1]);
    fflush(stdout);
    while (getchar() != EOF) {}
    return done == due_count ? 0 : 1;
}
