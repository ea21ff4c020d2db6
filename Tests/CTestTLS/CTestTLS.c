#include "CTestTLS.h"
#include <openssl/bio.h>
#include <openssl/err.h>
#include <errno.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

struct test_tls_context {
    SSL_CTX *ssl;
};

struct test_tls {
    SSL *ssl;
    BIO *held;
    int descriptor;
};

static int choose_http2(SSL *ssl, const unsigned char **out, unsigned char *length, const unsigned char *in, unsigned int count, void *user) {
    (void)ssl, (void)user;
    static const unsigned char wanted[] = "\x02h2";
    return SSL_select_next_proto((unsigned char **)out, length, wanted, sizeof wanted - 1, in, count) == OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_NOACK;
}

void test_tls_context_choose_http2(test_tls_context *context) { SSL_CTX_set_alpn_select_cb(context->ssl, choose_http2, 0); }

static int refuse_protocols(SSL *ssl, const unsigned char **out, unsigned char *length, const unsigned char *in, unsigned int count, void *user) {
    (void)ssl, (void)out, (void)length, (void)in, (void)count, (void)user;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void test_tls_context_refuse_protocols(test_tls_context *context) { SSL_CTX_set_alpn_select_cb(context->ssl, refuse_protocols, 0); }

void test_tls_context_demand_client(test_tls_context *context, const char *authority) {
    SSL_CTX_load_verify_file(context->ssl, authority);
    SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, 0);
}

void test_tls_context_be_ancient(test_tls_context *context) {
    SSL_CTX_set_security_level(context->ssl, 0);
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context->ssl, TLS1_1_VERSION);
}

int test_tls_redate(const char *path, const char *key_path, long not_before, long not_after) {
    FILE *file = fopen(path, "r");
    X509 *certificate = file ? PEM_read_X509(file, 0, 0, 0) : 0;
    if (file) fclose(file);
    FILE *key_file = fopen(key_path, "r");
    EVP_PKEY *key = key_file ? PEM_read_PrivateKey(key_file, 0, 0, 0) : 0;
    if (key_file) fclose(key_file);
    int is_signed = certificate && key && X509_gmtime_adj(X509_getm_notBefore(certificate), not_before) &&
                    X509_gmtime_adj(X509_getm_notAfter(certificate), not_after) && X509_sign(certificate, key, EVP_sha256()) > 0;
    file = is_signed ? fopen(path, "w") : 0;
    int is_written = file && PEM_write_X509(file, certificate) == 1;
    if (file) fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return is_written;
}

test_tls_context *test_tls_context_make(const char *certificate, const char *key, int is_12) {
    test_tls_context *context = calloc(1, sizeof *context);
    SSL_CTX *ssl = context ? SSL_CTX_new(TLS_server_method()) : 0;
    if (ssl && SSL_CTX_use_certificate_chain_file(ssl, certificate) == 1 && SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) == 1) {
        if (is_12) SSL_CTX_set_max_proto_version(ssl, TLS1_2_VERSION);
        context->ssl = ssl;
        return context;
    }
    SSL_CTX_free(ssl);
    free(context);
    return 0;
}

void test_tls_context_free(test_tls_context *context) {
    SSL_CTX_free(context->ssl);
    free(context);
}

/* Written bytes are buffered until test_tls_flush. */
static test_tls *opened(SSL *ssl, int is_open, int descriptor) {
    test_tls *tls = is_open ? calloc(1, sizeof *tls) : 0;
    if (!tls) {
        SSL_free(ssl);
        return 0;
    }
    tls->ssl = ssl;
    tls->held = BIO_new(BIO_s_mem());
    tls->descriptor = descriptor;
    SSL_set0_wbio(ssl, tls->held);
    return tls;
}

test_tls *test_tls_accept(test_tls_context *context, int descriptor) {
    ERR_clear_error();
    SSL *ssl = SSL_new(context->ssl);
    return opened(ssl, ssl && SSL_set_fd(ssl, descriptor) == 1 && SSL_accept(ssl) == 1, descriptor);
}

void test_tls_free(test_tls *tls) {
    // Lets the client resume the session, however this connection ended.
    SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(tls->ssl);
    free(tls);
}

int test_tls_is_resumed(const test_tls *tls) { return SSL_session_reused(tls->ssl); }

ptrdiff_t test_tls_read(test_tls *tls, void *bytes, size_t count) {
    ERR_clear_error();
    int result = SSL_read(tls->ssl, bytes, (int)count);
    return result > 0 ? result : 0;
}

int test_tls_write(test_tls *tls, const void *bytes, size_t count) {
    ERR_clear_error();
    return SSL_write(tls->ssl, bytes, (int)count) == (int)count;
}

int test_tls_write_ticket(test_tls *tls) { return SSL_new_session_ticket(tls->ssl) == 1 && SSL_do_handshake(tls->ssl) == 1; }

int test_tls_write_key_update(test_tls *tls) {
    return SSL_key_update(tls->ssl, SSL_KEY_UPDATE_REQUESTED) == 1 && SSL_do_handshake(tls->ssl) == 1;
}

void test_tls_write_close_notify(test_tls *tls) { SSL_shutdown(tls->ssl); }

int test_tls_flush(test_tls *tls) {
    char *bytes;
    long count = BIO_get_mem_data(tls->held, &bytes);
    long sent = 0;
    while (sent < count) {
        ssize_t more = send(tls->descriptor, bytes + sent, (size_t)(count - sent), MSG_NOSIGNAL);
        if (more <= 0) return 0;
        sent += more;
    }
    BIO_reset(tls->held);
    return 1;
}

static SSL *make_client(SSL_CTX *context, const test_tls_offer *offer, int descriptor) {
    if (offer->is_12) SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
    if (offer->suites && SSL_CTX_set_cipher_list(context, offer->suites) != 1) return 0;
    if (offer->protocols_count > 0) SSL_CTX_set_alpn_protos(context, offer->protocols, offer->protocols_count);
    if (offer->authority) {
        SSL_CTX_load_verify_file(context, offer->authority);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, 0);
    }
    if (offer->certificate && (SSL_CTX_use_certificate_chain_file(context, offer->certificate) != 1 ||
                               SSL_CTX_use_PrivateKey_file(context, offer->key, SSL_FILETYPE_PEM) != 1)) {
        return 0;
    }
    SSL *ssl = SSL_new(context);
    if (!ssl) return 0;
    SSL_set_fd(ssl, descriptor);
    if (offer->name) SSL_set_tlsext_host_name(ssl, offer->name);
    if (offer->session) SSL_set_session(ssl, offer->session);
    return ssl;
}

test_tls *test_tls_connect(const test_tls_offer *offer, int descriptor) {
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = context ? make_client(context, offer, descriptor) : 0;
    SSL_CTX_free(context);
    return opened(ssl, ssl && SSL_connect(ssl) == 1, descriptor);
}

ptrdiff_t test_tls_receive(test_tls *tls, void *bytes, size_t count) {
    ERR_clear_error();
    errno = 0;
    int result = SSL_read(tls->ssl, bytes, (int)count);
    test_tls_flush(tls);
    if (result > 0) return result;
    int error = SSL_get_error(tls->ssl, result);
    return error == SSL_ERROR_ZERO_RETURN || error == SSL_ERROR_SSL || (error == SSL_ERROR_SYSCALL && errno == 0) ? 0 : -1;
}

int test_tls_has_input(test_tls *tls, int milliseconds) {
    // Up to 16 records without content may precede it; each needs one poll.
    for (int looks = 0; looks < 16; looks++) {
        struct pollfd waiting = {.fd = tls->descriptor, .events = POLLIN};
        if (!SSL_has_pending(tls->ssl) && poll(&waiting, 1, milliseconds) <= 0) return 0;
        char byte;
        ERR_clear_error();
        SSL_clear_mode(tls->ssl, SSL_MODE_AUTO_RETRY);
        int result = SSL_peek(tls->ssl, &byte, 1);
        int error = SSL_get_error(tls->ssl, result);
        SSL_set_mode(tls->ssl, SSL_MODE_AUTO_RETRY);
        if (result > 0 || error != SSL_ERROR_WANT_READ) return 1;
    }
    return 0;
}

int test_tls_is_closed(const test_tls *tls) { return (SSL_get_shutdown(tls->ssl) & SSL_RECEIVED_SHUTDOWN) != 0; }

void *test_tls_session(test_tls *tls) { return SSL_get1_session(tls->ssl); }

void test_tls_free_session(void *session) { SSL_SESSION_free(session); }

size_t test_tls_session_ticket(const void *session, const unsigned char **ticket) {
    size_t count = 0;
    SSL_SESSION_get0_ticket(session, ticket, &count);
    return count;
}

size_t test_tls_protocol(const test_tls *tls, const unsigned char **name) {
    unsigned int count;
    SSL_get0_alpn_selected(tls->ssl, name, &count);
    return count;
}

const char *test_tls_version(const test_tls *tls) { return SSL_get_version(tls->ssl); }

int test_tls_fingerprint(const test_tls *tls, unsigned char *hash) {
    X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
    return certificate && X509_digest(certificate, EVP_sha256(), hash, 0);
}
