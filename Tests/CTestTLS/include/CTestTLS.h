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
void test_tls_context_free(test_tls_context *context);

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

#endif
