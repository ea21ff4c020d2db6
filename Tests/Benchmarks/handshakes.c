// Makes TLS handshakes as fast as possible, AT_ONCE of them concurrently. Each handshake has its own connection, which ends when the
// server's ticket has arrived.
//
//     handshakes PORT AT_ONCE SECONDS full|resumed
//
// Prints the number of handshakes and the rate per second. `resumed` makes one full handshake and then resumes its session; a handshake
// that is not resumed ends the program. Connections come from many addresses, so that ports do not run out. One thread, loopback, for
// benchmarks only.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT = 65536, SOURCES = 250 };

static SSL *connections[LIMIT];
static int has_ticket[LIMIT], epoll, port, is_resuming;
static long long made;
static SSL_CTX *context;
static SSL_SESSION *kept;

static void fail(const char *what) {
    perror(what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int keep(SSL *ssl, SSL_SESSION *session) {
    has_ticket[SSL_get_fd(ssl)] = 1;
    if (kept || !is_resuming) return 0;
    kept = session;
    return 1;
}

static void begin(void) {
    static int source;
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int on = 1, descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 256 + (unsigned)(source++ % SOURCES));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (descriptor < 0 || descriptor >= LIMIT || bind(descriptor, (struct sockaddr *)&from, sizeof from)) fail("bind");
    if (connect(descriptor, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) fail("connect");
    SSL *ssl = SSL_new(context);
    SSL_set_fd(ssl, descriptor);
    SSL_set_connect_state(ssl);
    // A copy, because OpenSSL does not reuse a session that was used once.
    SSL_SESSION *copy = kept ? SSL_SESSION_dup(kept) : 0;
    if (kept && (!copy || !SSL_set_session(ssl, copy))) fail("session");
    SSL_SESSION_free(copy);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = descriptor};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event)) fail("epoll_ctl");
    connections[descriptor] = ssl;
    has_ticket[descriptor] = 0;
}

// Returns whether the connection is finished: the handshake is complete and the ticket has arrived.
static int go_on(int descriptor) {
    SSL *ssl = connections[descriptor];
    char byte;
    int result = SSL_is_init_finished(ssl) ? 1 : SSL_do_handshake(ssl);
    if (result == 1) result = SSL_read(ssl, &byte, 1);
    int error = SSL_get_error(ssl, result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) fail("handshake");
    return SSL_is_init_finished(ssl) && has_ticket[descriptor];
}

static void end(int descriptor, int must_be_resumed) {
    SSL *ssl = connections[descriptor];
    if (must_be_resumed && !SSL_session_reused(ssl)) fprintf(stderr, "a handshake was not resumed\n"), exit(1);
    SSL_shutdown(ssl);
    SSL_free(ssl);
    close(descriptor);
    connections[descriptor] = 0;
    made++;
}

static void wait_for(int at_once, double until, int must_be_resumed) {
    struct epoll_event events[256];
    for (int number = 0; number < at_once; number++) begin();
    while (at_once > 0) {
        int ready = epoll_wait(epoll, events, 256, 5000);
        if (ready == 0) fail("no handshake in five seconds");
        for (int place = 0; place < ready; place++) {
            int descriptor = events[place].data.fd;
            if (!connections[descriptor] || !go_on(descriptor)) continue;
            end(descriptor, must_be_resumed);
            if (now() < until) begin(); else at_once--;
        }
    }
}

int main(int count, char **arguments) {
    if (count != 5) return fprintf(stderr, "handshakes PORT AT_ONCE SECONDS full|resumed\n"), 1;
    port = atoi(arguments[1]);
    is_resuming = !strcmp(arguments[4], "resumed");
    epoll = epoll_create1(0);
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, keep);
    if (is_resuming) wait_for(1, 0, 0);
    made = 0;
    double began = now();
    wait_for(atoi(arguments[2]), began + atof(arguments[3]), is_resuming);
    printf("%lld handshakes %.1f a second\n", made, (double)made / (now() - began));
}
