// Reads a fleet log as NODES nodes do, and appends to it as their writes do, to put load on the Redis server.
//
//     followers PORT KEY NODES WRITES SECONDS
//
// Each node has its own connection. It waits up to one second for entries, asks again 5 ms after entries arrive, and asks for the epoch and
// the time once per second. One more connection appends WRITES entries per second, each as large as a write's entry. At the end the program
// prints one line of JSON with the number of replies with entries, and the number of entries. It also has the median and 99th percentile of
// the milliseconds between an entry's ID and its arrival. One thread, loopback.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 4096, ROOM = 1 << 18, LONGEST = 10000, GATHERING = 5, HOLD = 1000 };

// Connections: bytes of replies, number of replies due, last entry read, and time of the next request (0: waiting).
static struct node { int descriptor, have, due; long long next, checked; char last[48], buffer[ROOM]; } *nodes;
static const char *key;
static long long replies, entries, late[LONGEST + 1];

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static long long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

static int open_connection(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return descriptor;
}

static void say(int descriptor, const char *words, int count) {
    if (write(descriptor, words, count) != count) fail("write");
}

static void ask(struct node *node) {
    char words[512];
    long long time = now(CLOCK_MONOTONIC);
    int checks = time - node->checked >= HOLD, count = 0;
    if (checks) {
        node->checked = time;
        count = sprintf(words, "GET %s:epoch\r\nTIME\r\n", key);
    }
    count += sprintf(words + count, "XREAD COUNT 256 BLOCK %lld STREAMS %s %s\r\n", HOLD - (time - node->checked), key, node->last);
    say(node->descriptor, words, count);
    node->due = checks ? 3 : 1;
    node->next = 0;
}

// Returns the end of one reply; NULL if it is incomplete. With `node`, records the IDs of entries: strings with a hyphen directly within an
// array.
static const char *skip(const char *from, const char *end, struct node *node, int depth) {
    const char *line = memchr(from, '\n', end - from);
    if (!line) return NULL;
    long count = strtol(from + 1, NULL, 10);
    line++;
    if (*from == '$') {
        if (count < 0) return line;
        if (end - line < count + 2) return NULL;
        if (node && depth == 4 && count < 40 && memchr(line, '-', count)) {
            memcpy(node->last, line, count);
            node->last[count] = 0;
            long long age = now(CLOCK_REALTIME) - strtoll(line, NULL, 10);
            late[age < 0 ? 0 : age > LONGEST ? LONGEST : age]++;
            entries++;
        }
        return line + count + 2;
    }
    if (*from == '*') for (long index = 0; index < count && line; index++) line = skip(line, end, node, depth + 1);
    return line;
}

static void receive(struct node *node) {
    long count = read(node->descriptor, node->buffer + node->have, ROOM - node->have);
    if (count <= 0) fail("the engine has closed a connection");
    node->have += count;
    for (const char *rest; node->have > 0 && node->due > 0; ) {
        const char *end = node->buffer + node->have;
        if (!(rest = skip(node->buffer, end, NULL, 0))) return;
        long long before = entries;
        skip(node->buffer, end, node, 0);
        if (entries > before) replies++;
        if (--node->due == 0) node->next = now(CLOCK_MONOTONIC) + (entries > before ? GATHERING : 0);
        node->have = end - rest;
        memmove(node->buffer, rest, node->have);
    }
}

static long long of_hundred(int part) {
    long long left = entries * part / 100;
    int age = 0;
    while (age < LONGEST && (left -= late[age]) >= 0) age++;
    return age;
}

int main(int count, char **words) {
    if (count != 6) return 2;
    int port = atoi(words[1]), number = atoi(words[3]), writes = atoi(words[4]), watcher = epoll_create1(EPOLL_CLOEXEC);
    key = words[2];
    if (number > NODES || !(nodes = calloc(number, sizeof *nodes))) fail("nodes");
    for (int index = 0; index < number; index++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &nodes[index]};
        nodes[index].descriptor = open_connection(port);
        strcpy(nodes[index].last, "$");
        if (epoll_ctl(watcher, EPOLL_CTL_ADD, nodes[index].descriptor, &event) != 0) fail("epoll");
        nodes[index].checked = now(CLOCK_MONOTONIC) - index * HOLD / number;
        ask(&nodes[index]);
    }
    int writer = open_connection(port);
    struct epoll_event own = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(watcher, EPOLL_CTL_ADD, writer, &own);
    char value[201], entry[600], ignored[65536];
    memset(value, 'v', 200);
    value[200] = 0;
    long long began = now(CLOCK_MONOTONIC), end = began + atoi(words[5]) * 1000LL, said = 0;
    for (long long time; (time = now(CLOCK_MONOTONIC)) < end; ) {
        for (; said < (time - began) * writes / 1000; said++) {
            int bytes = sprintf(entry, "XADD %s MINID ~ 1 * k m n 0123456789abcdef s %lld v %s\r\n", key, said + 1, value);
            say(writer, entry, bytes);
        }
        for (int index = 0; index < number; index++) if (nodes[index].next && nodes[index].next <= time) ask(&nodes[index]);
        struct epoll_event events[256];
        int ready = epoll_wait(watcher, events, 256, 1);
        for (int index = 0; index < ready; index++) {
            if (events[index].data.ptr) receive(events[index].data.ptr);
            else if (read(writer, ignored, sizeof ignored) <= 0) fail("the engine has closed the writer's connection");
        }
    }
    printf("{\"writes\": %lld, \"replies\": %lld, \"entries\": %lld, \"p50\": %lld, \"p99\": %lld}\n", said, replies, entries, of_hundred(50), of_hundred(99));
    return 0;
}
