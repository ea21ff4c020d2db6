// A minimal HTTP server as the lower bound of a response's cost on kept connections: epoll, with one recv and one send for each request.
//
//     floor PORT CONTENT_BYTES                 answers every request with a fixed response
//     floor PORT CONTENT_BYTES UPSTREAM_PORT   forwards each request to the upstream, and its response to the client
//
// It looks for the ends of requests and responses only. A request is the content of one recv (wrk sends each in one piece). All responses
// have the length of the upstream's first response, which is fetched at the start. One thread, loopback, for benchmarks only.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LIMIT = 65536, ROOM = 1 << 20 };

// State of each descriptor: whether it is an upstream connection, its partner, and the bytes of the response received so far.
static struct { char is_upstream; int partner; size_t received; } states[LIMIT];
static int idle[LIMIT], idle_count, epoll, upstream_port;
static char buffer[ROOM], response[ROOM];
static size_t response_bytes;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void watch(int descriptor, char is_upstream) {
    int on = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    if (descriptor >= LIMIT || epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event)) fail("epoll_ctl");
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    states[descriptor].is_upstream = is_upstream;
    states[descriptor].partner = -1;
}

static int connect_upstream(void) {
    struct sockaddr_in address = loopback(upstream_port);
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address)) fail("connect");
    return descriptor;
}

// Length of the upstream's response: its head, and its content by Content-Length.
static size_t measure(void) {
    static const char request[] = "GET /pass HTTP/1.1\r\nHost: floor\r\n\r\n";
    int descriptor = connect_upstream();
    size_t count = 0;
    if (send(descriptor, request, sizeof request - 1, 0) < 0) fail("send");
    while (count < ROOM - 1) {
        ssize_t more = recv(descriptor, buffer + count, ROOM - 1 - count, 0);
        if (more <= 0) fail("recv");
        buffer[count += (size_t)more] = 0;
        char *end = strstr(buffer, "\r\n\r\n"), *length = strcasestr(buffer, "content-length:");
        if (end && length && count >= (size_t)(end + 4 - buffer) + strtoul(length + 15, 0, 10)) break;
    }
    close(descriptor);
    return count;
}

static void drop(int descriptor) {
    int partner = states[descriptor].partner;
    if (partner >= 0) states[partner].partner = -1;
    for (int place = 0; place < idle_count; place++)
        if (idle[place] == descriptor) idle[place--] = idle[--idle_count];
    close(descriptor);
}

static void from_client(int client, size_t count) {
    if (!upstream_port) {
        if (send(client, response, response_bytes, MSG_NOSIGNAL) < 0) drop(client);
        return;
    }
    int upstream = idle_count ? idle[--idle_count] : -1;
    if (upstream < 0) watch(upstream = connect_upstream(), 1);
    states[upstream].partner = client;
    states[client].partner = upstream;
    states[upstream].received = 0;
    if (send(upstream, buffer, count, MSG_NOSIGNAL) < 0) fail("send");
}

static void from_upstream(int upstream, size_t count) {
    int client = states[upstream].partner;
    if (client >= 0 && send(client, buffer, count, MSG_NOSIGNAL) < 0) drop(client);
    states[upstream].received += count;
    if (states[upstream].received < response_bytes) return;
    if (states[upstream].partner >= 0) states[states[upstream].partner].partner = -1;
    states[upstream].partner = -1;
    idle[idle_count++] = upstream;
}

int main(int count, char **arguments) {
    if (count < 3) return fprintf(stderr, "floor PORT CONTENT_BYTES [UPSTREAM_PORT]\n"), 1;
    size_t content = strtoul(arguments[2], 0, 10);
    upstream_port = count > 3 ? atoi(arguments[3]) : 0;
    if (content > ROOM - 512) return 1;
    int head = snprintf(response, ROOM, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=36000\r\nAge: 1\r\n"
                                        "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nVia: 1.1 floor\r\nContent-Length: %zu\r\n\r\n", content);
    memset(response + head, 'x', content);
    response_bytes = upstream_port ? measure() : (size_t)head + content;
    epoll = epoll_create1(0);
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = loopback(atoi(arguments[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) fail("listen");
    watch(listener, 0);
    struct epoll_event events[256];
    for (;;) {
        int ready = epoll_wait(epoll, events, 256, -1);
        for (int place = 0; place < ready; place++) {
            int descriptor = events[place].data.fd;
            if (descriptor == listener) {
                int client = accept(listener, 0, 0);
                if (client >= 0) watch(client, 0);
                continue;
            }
            ssize_t bytes = recv(descriptor, buffer, ROOM, 0);
            if (bytes <= 0) drop(descriptor);
            else if (states[descriptor].is_upstream) from_upstream(descriptor, (size_t)bytes);
            else from_client(descriptor, (size_t)bytes);
        }
    }
}
