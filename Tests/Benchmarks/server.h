// Parts of origin.c and floor_tls.c: an epoll loop on loopback with OpenSSL, and nghttp2 for clients that choose HTTP/2. The including file
// defines take(). One thread, for benchmarks only.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT = 65536, ROOM = 1 << 18, FRAMES = 1 << 16, FRAME_HEAD = 9 };

// Connections: socket, TLS (null for plain HTTP), whether the handshake is complete, the HTTP/2 session (null for HTTP/1.1), and for the
// including file: bytes of an incomplete request.
typedef struct { int descriptor, is_agreed; SSL *ssl; nghttp2_session *http2; unsigned have; } connection;

static connection connections[LIMIT];
static int epoll;
static SSL_CTX *context;
static nghttp2_session_callbacks *callbacks;
static nghttp2_option *options;
static unsigned char input[ROOM], frames[FRAMES];
static size_t framed;

// Responds to `count` bytes of `input` over HTTP/1.1. Returns whether the connection stays open.
static int take(connection *one, size_t count);

static void fail(const char *what) {
    perror(what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

static void drop(connection *one) {
    nghttp2_session_del(one->http2);
    SSL_free(one->ssl);
    close(one->descriptor);
    memset(one, 0, sizeof *one);
}

// Sends all bytes. Other connections wait while this client does not read.
static int put(connection *one, const void *bytes, size_t count) {
    while (count > 0) {
        ssize_t taken = one->ssl ? SSL_write(one->ssl, bytes, (int)count) : send(one->descriptor, bytes, count, MSG_NOSIGNAL);
        if (taken <= 0) {
            if (one->ssl ? SSL_get_error(one->ssl, (int)taken) != SSL_ERROR_WANT_WRITE : errno != EAGAIN) return 0;
            struct pollfd wait = {.fd = one->descriptor, .events = POLLOUT};
            poll(&wait, 1, 10000);
            continue;
        }
        bytes = (const char *)bytes + taken;
        count -= (size_t)taken;
    }
    return 1;
}

// HTTP/2

static int flush(connection *one) {
    size_t count = framed;
    framed = 0;
    return count == 0 || put(one, frames, count);
}

static int gather(connection *one, const void *bytes, size_t count) {
    if (framed + count > FRAMES && !flush(one)) return 0;
    memcpy(frames + framed, bytes, count);
    framed += count;
    return 1;
}

static void begin_http2(connection *one) {
    nghttp2_settings_entry streams = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100};
    if (nghttp2_session_server_new2(&one->http2, callbacks, one, options)) fail("session");
    nghttp2_submit_settings(one->http2, NGHTTP2_FLAG_NONE, &streams, 1);
}

static int take_frames(connection *one, size_t count) {
    const uint8_t *frame;
    ssize_t length;
    if (nghttp2_session_mem_recv(one->http2, input, count) < 0) return 0;
    while ((length = nghttp2_session_mem_send(one->http2, &frame)) > 0)
        if (!gather(one, frame, (size_t)length)) return 0;
    return length == 0 && flush(one);
}

static nghttp2_nv field(const char *name, const char *value, size_t length) {
    uint8_t flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), length, flags};
}

// TLS

// Continues the handshake. Returns whether the connection is open.
static int agree(connection *one) {
    int result = SSL_do_handshake(one->ssl);
    if (result != 1) return SSL_get_error(one->ssl, result) == SSL_ERROR_WANT_READ;
    const unsigned char *name;
    unsigned length;
    SSL_get0_alpn_selected(one->ssl, &name, &length);
    one->is_agreed = 1;
    if (length == 2) begin_http2(one);
    return 1;
}

static int choose(SSL *ssl, const unsigned char **chosen, unsigned char *count, const unsigned char *offered, unsigned length,
                  void *is_http2) {
    (void)ssl;
    static const unsigned char both[] = "\x02h2\x08http/1.1";
    unsigned skipped = is_http2 ? 0 : 3;
    int result = SSL_select_next_proto((unsigned char **)chosen, count, both + skipped, sizeof both - 1 - skipped, offered, length);
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

// Offers HTTP/2 if `is_http2` is not null.
static void set_up_tls(const char *certificate, const char *key, void *is_http2) {
    context = SSL_CTX_new(TLS_server_method());
    if (!context || SSL_CTX_use_certificate_chain_file(context, certificate) != 1) fail(certificate);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) fail(key);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, choose, is_http2);
}

// Loop

// Handles input. Returns whether the connection is open.
static int ready(connection *one) {
    if (!one->ssl) {
        ssize_t count = recv(one->descriptor, input, ROOM, 0);
        return count > 0 ? take(one, (size_t)count) : count < 0 && errno == EAGAIN;
    }
    if (!one->is_agreed && !agree(one)) return 0;
    if (!one->is_agreed) return 1;
    do {
        int count = SSL_read(one->ssl, input, ROOM);
        if (count <= 0) return SSL_get_error(one->ssl, count) == SSL_ERROR_WANT_READ;
        if (!(one->http2 ? take_frames(one, (size_t)count) : take(one, (size_t)count))) return 0;
    } while (SSL_has_pending(one->ssl));
    return 1;
}

static void watch(int descriptor) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    if (descriptor >= LIMIT || epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event)) fail("epoll_ctl");
}

static int listen_on(const char *port) {
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) fail("listen");
    watch(listener);
    return listener;
}

static void take_client(int listener, int is_tls) {
    int on = 1, client = accept4(listener, 0, 0, SOCK_NONBLOCK);
    if (client < 0) return;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(client);
    connections[client] = (connection){.descriptor = client};
    if (!is_tls) return;
    connections[client].ssl = SSL_new(context);
    SSL_set_fd(connections[client].ssl, client);
    SSL_set_accept_state(connections[client].ssl);
}

static void serve(const char *port, const char *tls_port) {
    signal(SIGPIPE, SIG_IGN);
    epoll = epoll_create1(0);
    int clear = listen_on(port), secure = listen_on(tls_port);
    struct epoll_event events[256];
    for (;;) {
        int count = epoll_wait(epoll, events, 256, -1);
        for (int place = 0; place < count; place++) {
            int descriptor = events[place].data.fd;
            ERR_clear_error();
            if (descriptor == clear || descriptor == secure) take_client(descriptor, descriptor == secure);
            else if (!ready(&connections[descriptor])) drop(&connections[descriptor]);
        }
    }
}
