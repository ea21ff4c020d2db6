// TLS for scripted origins and clients in tests: blocking, with control over record boundaries and flushing.
#ifndef CTESTTLS_H
#define CTESTTLS_H

#include <stddef.h>

typedef struct test_tls_context test_tls_context;
typedef struct test_tls test_tls;

// `is_12`: TLS 1.2 at most.
test_tls_context *test_tls_context_make(const char *certificate, const char *key, int is_12);
// Selects HTTP/2 if the client offers it (RFC 7301).
void test_tls_context_choose_http2(test_tls_context *context);
// Requires a client certificate of this authority.
void test_tls_context_demand_client(test_tls_context *context, const char *authority);
// Refuses every HTTP protocol that a client offers, with an alert (RFC 7301 §3.2).
void test_tls_context_refuse_protocols(test_tls_context *context);
// TLS 1.1 at most.
void test_tls_context_be_ancient(test_tls_context *context);
void test_tls_context_free(test_tls_context *context);

// Re-signs a certificate with another validity, in seconds from now. 0 if that fails.
int test_tls_redate(const char *certificate, const char *authority_key, long not_before, long not_after);

// Null if the handshake fails.
test_tls *test_tls_accept(test_tls_context *context, int descriptor);
void test_tls_free(test_tls *tls);
int test_tls_is_resumed(const test_tls *tls);
// 0 at the end.
ptrdiff_t test_tls_read(test_tls *tls, void *bytes, size_t count);

// Each appends one record, or several if the bytes do not fit in one, to a buffer. `flush` sends the buffer at once.
int test_tls_write(test_tls *tls, const void *bytes, size_t count);
int test_tls_write_ticket(test_tls *tls);
int test_tls_write_key_update(test_tls *tls);
void test_tls_write_close_notify(test_tls *tls);
int test_tls_flush(test_tls *tls);

// Parameters of a client's handshake. Null: not sent.
typedef struct {
    const char *name;
    // Trusted authority; null trusts all certificates.
    const char *authority;
    const char *certificate;
    const char *key;
    // ALPN protocols as in the handshake: each preceded by its length.
    const unsigned char *protocols;
    unsigned int protocols_count;
    int is_12;
    // Cipher suites of TLS 1.2.
    const char *suites;
    // Session of an earlier connection, from `test_tls_session`.
    void *session;
} test_tls_offer;

// Null if the handshake fails.
test_tls *test_tls_connect(const test_tls_offer *offer, int descriptor);
// 0 at the end; -1 if nothing arrives in time or the connection breaks.
ptrdiff_t test_tls_receive(test_tls *tls, void *bytes, size_t count);
// Whether content is available, or arrives in time.
int test_tls_has_input(test_tls *tls, int milliseconds);
// Whether the server has sent close_notify.
int test_tls_is_closed(const test_tls *tls);
// The session to resume, available after something was received; null if there is none. The caller frees it.
void *test_tls_session(test_tls *tls);
void test_tls_free_session(void *session);
// The session's ticket. Valid as long as the session.
size_t test_tls_session_ticket(const void *session, const unsigned char **ticket);
// The negotiated protocol. Returns its length.
size_t test_tls_protocol(const test_tls *tls, const unsigned char **name);
// Version of TLS, such as TLSv1.3.
const char *test_tls_version(const test_tls *tls);
// SHA-256 of the server's certificate.
int test_tls_fingerprint(const test_tls *tls, unsigned char *hash);

#endif
