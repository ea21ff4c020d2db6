// Sends requests at a fixed rate, half on kept connections and half on new ones. Counts losses: refused connections, and connections that
// end before the whole response has arrived.
//
//     load PORT CONNECTIONS RATE FILE
//
// FILE has the requests, each terminated by NUL. They are sent in order, and repeated from the first, until SIGTERM. Then the program
// prints one line of JSON: the numbers of due, finished and lost requests, and the causes of losses. It also has the longest latency since
// the due time, in microseconds. Connections come from 250 addresses, so that ports do not run out. One thread, loopback.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 4096, ROOM = 1 << 18, SECOND = 1000000000, SLOW = 200000 };

// Slots: socket (-1: none), whether it is a kept connection, due time of the request, and the bytes of the response received so far.
static struct place { int descriptor, is_kept; long long due; const char *request; size_t have, want; char head[2048]; } places[CONNECTIONS];
// Idle slots, longest idle first; one queue for each kind of connection.
static struct queue { int numbers[CONNECTIONS]; unsigned first, count; } waiting[2];
static char buffer[ROOM];
static int port, watcher;
static unsigned addresses;
static long long done, refused, cut, wrong, slow, longest;
static volatile sig_atomic_t is_over;

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static void end(int signal) { (void)signal, is_over = 1; }

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * (long long)SECOND + time.tv_nsec;
}

static void put(int number) {
    struct queue *queue = &waiting[places[number].is_kept];
    queue->numbers[(queue->first + queue->count++) % CONNECTIONS] = number;
}

static int take(int is_kept) {
    struct queue *queue = &waiting[is_kept];
    int number = queue->numbers[queue->first];
    queue->first = (queue->first + 1) % CONNECTIONS, queue->count--;
    return number;
}

static void forget(struct place *place) {
    if (place->descriptor >= 0) close(place->descriptor);
    place->descriptor = -1;
}

// Counts the request as lost.
static void lose(int number, long long *counter) {
    if (++*counter <= 10) fprintf(stderr, "  ! %s connection: %s after %zu bytes\n", places[number].is_kept ? "kept" : "new", strerror(errno), places[number].have);
    forget(&places[number]);
    places[number].request = 0;
    put(number);
}

// Returns 0 if the connection is refused.
static int open_place(struct place *place, int number) {
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + addresses++ % 250)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (unsigned)number};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    if (descriptor < 0) fail("socket");
    setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(descriptor, (struct sockaddr *)&from, sizeof from)) fail("bind");
    int is_open = !connect(descriptor, (struct sockaddr *)&to, sizeof to);
    place->descriptor = descriptor;
    if (!is_open && errno != EINPROGRESS) return 0;
    if (!is_open) event.events = EPOLLOUT;
    if (epoll_ctl(watcher, EPOLL_CTL_ADD, descriptor, &event)) fail("epoll_ctl");
    return 1;
}

static void send_request(int number) {
    struct place *place = &places[number];
    size_t length = strlen(place->request);
    if (send(place->descriptor, place->request, length, MSG_NOSIGNAL) == (ssize_t)length) return;
    // Not connected yet; the request is sent later.
    if (errno != EAGAIN && errno != ENOTCONN) lose(number, &cut);
}

static void begin(int number, long long due, const char *request) {
    struct place *place = &places[number];
    place->due = due, place->request = request, place->have = place->want = 0;
    if (place->descriptor < 0 && !open_place(place, number)) return lose(number, &refused);
    send_request(number);
}

static void connected(int number) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (unsigned)number};
    socklen_t size = sizeof errno;
    int error = 0;
    getsockopt(places[number].descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    if (error) return lose(number, &refused);
    if (epoll_ctl(watcher, EPOLL_CTL_MOD, places[number].descriptor, &event)) fail("epoll_ctl");
    send_request(number);
}

// -1: ended or invalid, 0: incomplete, 1: complete, 2: complete, and the connection closes.
static int receive(struct place *place) {
    ssize_t count = recv(place->descriptor, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return 0;
    if (!count) errno = 0;
    if (count <= 0) return -1;
    size_t room = sizeof place->head - 1, taken = place->have < room ? room - place->have : 0;
    if (taken > (size_t)count) taken = (size_t)count;
    memcpy(place->head + (place->have < room ? place->have : room), buffer, taken);
    place->head[place->have < room ? place->have + taken : room] = 0;
    place->have += (size_t)count;
    if (!place->want) {
        char *end = strstr(place->head, "\r\n\r\n"), *length = strcasestr(place->head, "\r\ncontent-length:");
        if (!end) return 0;
        if (!length || length > end) return -1;
        if (strncmp(place->head, "HTTP/1.1 200", 12)) wrong++, fprintf(stderr, "  ! %.60s\n", place->head);
        place->want = (size_t)(end - place->head) + 4 + strtoul(length + 17, 0, 10);
    }
    if (place->have < place->want) return 0;
    return strcasestr(place->head, "\r\nconnection: close") ? 2 : 1;
}

static void read_place(int number) {
    struct place *place = &places[number];
    if (!place->request) {
        // No request is pending, so the connection may end.
        if (recv(place->descriptor, buffer, sizeof buffer, MSG_DONTWAIT) <= 0) forget(place);
        return;
    }
    int state = receive(place);
    if (!state) return;
    if (state < 0) return lose(number, &cut);
    long long time = (now() - place->due) / 1000;
    if (time > longest) longest = time;
    if (time > SLOW && ++slow <= 10) fprintf(stderr, "  ! %s connection: %lld ms, due at %.3f s\n", place->is_kept ? "kept" : "new", time / 1000, (double)place->due / SECOND);
    done++;
    place->request = 0;
    if (state == 2 || !place->is_kept) forget(place);
    put(number);
}

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    char *text = malloc(*size + 1);
    rewind(file);
    if (!text || fread(text, 1, *size, file) != *size) fail("read");
    return text;
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    int wanted = atoi(arguments[2]);
    double rate = atof(arguments[3]);
    size_t size;
    char *text = read_file(arguments[4], &size), *at = text;
    port = atoi(arguments[1]), watcher = epoll_create1(0);
    if (wanted > CONNECTIONS || wanted < 2 || rate <= 0) return 2;
    signal(SIGTERM, end);
    for (int number = 0; number < wanted; number++) places[number].descriptor = -1, places[number].is_kept = number % 2, put(number);
    long long next = 0, start = now();
    while (!is_over) {
        long long due = start + (long long)((double)next / rate * SECOND), wait = SECOND;
        for (; waiting[next % 2].count && due <= now(); due = start + (long long)((double)++next / rate * SECOND)) {
            begin(take(next % 2), due, at);
            at += strlen(at) + 1;
            if (at >= text + size) at = text;
        }
        if (waiting[next % 2].count) wait = due - now();
        struct timespec limit = {.tv_sec = wait > 0 ? wait / SECOND : 0, .tv_nsec = wait > 0 ? wait % SECOND : 0};
        struct epoll_event events[64];
        int ready = epoll_pwait2(watcher, events, 64, &limit, 0);
        if (ready < 0 && errno != EINTR) fail("epoll_pwait2");
        for (int place = 0; place < ready; place++) {
            int number = (int)events[place].data.u32;
            if (places[number].descriptor < 0) continue;
            if (events[place].events & EPOLLOUT) connected(number); else read_place(number);
        }
    }
    printf("{\"due\": %lld, \"done\": %lld, \"refused\": %lld, \"cut\": %lld, \"wrong\": %lld, \"slow\": %lld, \"longest\": %lld}\n",
           next, done, refused, cut, wrong, slow, longest);
    return refused + cut + wrong ? 1 : 0;
}
