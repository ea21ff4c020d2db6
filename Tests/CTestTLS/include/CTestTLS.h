// The origin's side of TLS in plays: blocking, and with a say in where records begin and end and what is sent together.
#ifndef CTESTTLS_H
#define CTESTTLS_H

#include <stddef.h>

typedef struct test_tls_context test_tls_context;
typedef struct test_tls test_tls;

// `is_12`: TLS 1.2 and nothing newer.
test_tls_context *test_tls_context_make(const char *certificate, const char *key, int is_12);
// HTTP/2 is chosen where the client offers it (RFC 7301).
void test_tls_context_choose_http2(test_tls_context *context);
// Clients have to show a certificate of this authority.
void test_tls_context_demand_client(test_tls_context *context, const char *authority);
// Every protocol of HTTP that a client offers is refused by an alert (RFC 7301 §3.2).
void test_tls_context_refuse_protocols(test_tls_context *context);
// TLS 1.1 and nothing newer.
void test_tls_context_be_ancient(test_tls_context *context);
void test_tls_context_free(test_tls_context *context);

// Signs a certificate again, with another validity: seconds from now. 0 if that fails.
int test_tls_redate(const char *certificate, const char *authority_key, long not_before, long not_after);

// Null where the client and we do not agree.
test_tls *test_tls_accept(test_tls_context *context, int descriptor);
void test_tls_free(test_tls *tls);
int test_tls_is_resumed(const test_tls *tls);
// 0 at the end.
ptrdiff_t test_tls_read(test_tls *tls, void *bytes, size_t count);

// Each puts one record, or several where there is more than fits, behind what is held; `flush` sends all of it in one piece.
int test_tls_write(test_tls *tls, const void *bytes, size_t count);
int test_tls_write_ticket(test_tls *tls);
int test_tls_write_key_update(test_tls *tls);
void test_tls_write_close_notify(test_tls *tls);
int test_tls_flush(test_tls *tls);

// The client's side: what it says and shows. Null for what it does not.
typedef struct {
    const char *name;
    // Whom it trusts; null for everybody.
    const char *authority;
    const char *certificate;
    const char *key;
    // As in the handshake: each with its length before it.
    const unsigned char *protocols;
    unsigned int protocols_count;
    int is_12;
    // Suites of TLS 1.2.
    const char *suites;
    // Of an earlier connection; `test_tls_session`.
    void *session;
} test_tls_offer;

// Null where they do not agree.
test_tls *test_tls_connect(const test_tls_offer *offer, int descriptor);
// 0 at the end, -1 where nothing comes in time, or the connection broke.
ptrdiff_t test_tls_receive(test_tls *tls, void *bytes, size_t count);
// Whether content is there, or comes in time.
int test_tls_has_input(test_tls *tls, int milliseconds);
// Whether the server has said that it sends no more.
int test_tls_is_closed(const test_tls *tls);
// A session to resume, after something was received; null where there is none. To be freed.
void *test_tls_session(test_tls *tls);
void test_tls_free_session(void *session);
// What the server has given for it, good as long as the session is.
size_t test_tls_session_ticket(const void *session, const unsigned char **ticket);
// The protocol that was agreed on; its length.
size_t test_tls_protocol(const test_tls *tls, const unsigned char **name);
// Such as TLSv1.3.
const char *test_tls_version(const test_tls *tls);
// SHA-256 of the server's certificate.
int test_tls_fingerprint(const test_tls *tls, unsigned char *hash);

#endif
