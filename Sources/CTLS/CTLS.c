#include "CTLSConnection.h"
#include "CSystem.h"
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Number of sessions kept for later connections. A TLS 1.3 ticket is used once (RFC 8446 appendix C.4), so a burst of connections needs
// several.
enum { SESSIONS = 32 };
// Maximum number of records without content (tickets, key updates) in one call. A peer that sends more without content is treated as an
// attacker.
enum { BARE_RECORDS = 32 };

struct ctls_context {
    SSL_CTX *ssl;
    char *name;
    int is_name;
    SSL_SESSION *sessions[SESSIONS];
    int count;
};

// Replaces OpenSSL's socket BIO, which would raise SIGPIPE and not report the number of bytes sent.

static int bio_read(BIO *bio, char *bytes, int count) {
    ctls_connection *connection = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t result;
    do result = csystem_receive(connection->descriptor, bytes, (size_t)count);
    while (result < 0 && errno == EINTR);
    if (result == 0) connection->is_at_end = 1;
    if (result > 0 && connection->first_byte < 0) connection->first_byte = (unsigned char)bytes[0];
    if (result < 0 && errno == EAGAIN) {
        connection->is_blocked = 1;
        BIO_set_retry_read(bio);
    } else if (result < 0) {
        connection->system_error = errno;
    }
    return (int)result;
}

static int bio_write(BIO *bio, const char *bytes, int count) {
    ctls_connection *connection = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t result;
    do result = csystem_send(connection->descriptor, bytes, (size_t)count);
    while (result < 0 && errno == EINTR);
    if (result > 0) connection->written += (uint64_t)result;
    if (result < 0 && errno == EAGAIN) {
        connection->is_blocked = 1;
        BIO_set_retry_write(bio);
    } else if (result < 0) {
        connection->system_error = errno;
    }
    return (int)result;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
    (void)number, (void)pointer;
    ctls_connection *connection = BIO_get_data(bio);
    if (command == BIO_CTRL_FLUSH) return 1;
    return command == BIO_CTRL_EOF && connection->is_at_end;
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void make_method(void) {
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (!method) return;
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_ctrl(method, bio_control);
}

// Contexts

static void forget_sessions(ctls_context *context) {
    while (context->count > 0) SSL_SESSION_free(context->sessions[--context->count]);
}

static int keep_session(SSL *ssl, SSL_SESSION *session) {
    ctls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    if (context->count == SESSIONS) {
        SSL_SESSION_free(context->sessions[0]);
        memmove(context->sessions, context->sessions + 1, (SESSIONS - 1) * sizeof *context->sessions);
        context->count--;
    }
    // A copy, because OpenSSL invalidates the session of a connection that is cut.
    SSL_SESSION *copy = SSL_SESSION_dup(session);
    if (copy) context->sessions[context->count++] = copy;
    return 0;
}

static void resume_session(ctls_connection *connection) {
    ctls_context *context = connection->context;
    while (context->count > 0) {
        SSL_SESSION *session = context->sessions[--context->count];
        int is_usable = SSL_SESSION_is_resumable(session) && SSL_set_session(connection->ssl, session);
        // A TLS 1.2 session can be resumed by many connections.
        SSL_SESSION *again = is_usable && SSL_SESSION_get_protocol_version(session) < TLS1_3_VERSION ? SSL_SESSION_dup(session) : 0;
        if (again) context->sessions[context->count++] = again;
        SSL_SESSION_free(session);
        if (is_usable) return;
    }
}

static int trust_system(SSL_CTX *ssl) {
    static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
    for (size_t index = 0; index < sizeof bundles / sizeof *bundles; index++) {
        if (access(bundles[index], R_OK) == 0) return SSL_CTX_load_verify_file(ssl, bundles[index]);
    }
    return SSL_CTX_set_default_verify_paths(ssl);
}

// Description of a refused certificate

enum { SHOWN_NAMES = 8, SHOWN_BYTES = 512 };

static void write_names(BIO *out, X509 *certificate) {
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, 0, 0);
    int count = sk_GENERAL_NAME_num(names);
    BIO_puts(out, count > 0 ? "for " : "without names");
    for (int index = 0; index < count && index < SHOWN_NAMES; index++) {
        if (index > 0) BIO_puts(out, ", ");
        GENERAL_NAME_print(out, sk_GENERAL_NAME_value(names, index));
    }
    if (count > SHOWN_NAMES) BIO_printf(out, " and %d more", count - SHOWN_NAMES);
    GENERAL_NAMES_free(names);
}

static char *certificate_text(X509 *certificate) {
    BIO *out = BIO_new(BIO_s_mem());
    if (!out) return 0;
    write_names(out, certificate);
    BIO_puts(out, "; issued by ");
    X509_NAME_print_ex(out, X509_get_issuer_name(certificate), 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
    BIO_puts(out, "; valid from ");
    ASN1_TIME_print(out, X509_get0_notBefore(certificate));
    BIO_puts(out, " to ");
    ASN1_TIME_print(out, X509_get0_notAfter(certificate));
    char *bytes;
    long count = BIO_get_mem_data(out, &bytes);
    char *text = count > 0 ? strndup(bytes, count < SHOWN_BYTES ? (size_t)count : SHOWN_BYTES) : 0;
    BIO_free(out);
    return text;
}

// OpenSSL does not keep a refused certificate in the session, so it is described here. OpenSSL's decision is unchanged.
static int note_refused(int is_good, X509_STORE_CTX *checked) {
    if (is_good) return 1;
    SSL *ssl = X509_STORE_CTX_get_ex_data(checked, SSL_get_ex_data_X509_STORE_CTX_idx());
    ctls_connection *connection = ssl ? BIO_get_data(SSL_get_rbio(ssl)) : 0;
    X509 *certificate = X509_STORE_CTX_get0_cert(checked);
    if (connection && certificate && !connection->certificate) connection->certificate = certificate_text(certificate);
    return 0;
}

static int set_trust(ctls_context *context, const char *ca_file, int verifies) {
    SSL_CTX_set_verify(context->ssl, verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, verifies ? note_refused : 0);
    if (!verifies) return 1;
    if (!(ca_file ? SSL_CTX_load_verify_file(context->ssl, ca_file) : trust_system(context->ssl))) return 0;
    X509_VERIFY_PARAM *parameters = SSL_CTX_get0_param(context->ssl);
    // A certificate in the file is trusted even if its issuer is not in the file.
    X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_PARTIAL_CHAIN);
    X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return context->is_name ? X509_VERIFY_PARAM_set1_host(parameters, context->name, 0)
                            : X509_VERIFY_PARAM_set1_ip_asc(parameters, context->name);
}

// A key with a passphrase is rejected instead of prompting for it.
static int no_passphrase(char *space, int size, int writes, void *unused) {
    (void)space, (void)size, (void)writes, (void)unused;
    return -1;
}

static int set_own(ctls_context *context, const char *certificate, const char *key) {
    if (!certificate || !key) return 1;
    SSL_CTX_set_default_passwd_cb(context->ssl, no_passphrase);
    return SSL_CTX_use_certificate_chain_file(context->ssl, certificate) == 1 &&
           SSL_CTX_use_PrivateKey_file(context->ssl, key, SSL_FILETYPE_PEM) == 1 && SSL_CTX_check_private_key(context->ssl) == 1;
}

// Protocols for ALPN, in order of preference (RFC 7301 §3.1).
static int set_protocols(SSL_CTX *ssl, int protocols) {
    static const unsigned char both[] = "\x02h2\x08http/1.1";
    enum { HTTP2 = 3, HTTP1 = 9 };
    if (protocols == CTLS_NO_PROTOCOL) return 1;
    const unsigned char *first = protocols == CTLS_HTTP1 ? both + HTTP2 : both;
    unsigned int length = protocols == CTLS_HTTP1 ? HTTP1 : protocols == CTLS_HTTP2 ? HTTP2 : HTTP2 + HTTP1;
    return SSL_CTX_set_alpn_protos(ssl, first, length) == 0;
}

static int set_up(ctls_context *context, const char *ca_file, const char *certificate, const char *key, int verifies, int protocols) {
    SSL_CTX *ssl = context->ssl;
    SSL_CTX_set_app_data(ssl, context);
    // Overrides the system's OpenSSL configuration: an end without close_notify is an error.
    SSL_CTX_clear_options(ssl, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION);
    SSL_CTX_clear_mode(ssl, SSL_MODE_AUTO_RETRY);
    // Releases 34 KB of buffers while a connection is idle.
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    // Reads a record's header, its content and further whole records with one system call.
    SSL_CTX_set_read_ahead(ssl, 1);
    SSL_CTX_set_post_handshake_auth(ssl, 1);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ssl, keep_session);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) && set_protocols(ssl, protocols) && set_own(context, certificate, key) && set_trust(context, ca_file, verifies);
}

ctls_context *ctls_context_make(
    const char *host, const char *ca_file, const char *certificate, const char *key, int verifies, int protocols) {
    ctls_context *context = calloc(1, sizeof *context);
    if (!context) return 0;
    context->name = strdup(host);
    // Removes the trailing dot of an absolute name; names in certificates do not have it.
    size_t length = context->name ? strlen(context->name) : 0;
    if (length > 1 && context->name[length - 1] == '.') context->name[length - 1] = 0;
    ASN1_OCTET_STRING *address = context->name ? a2i_IPADDRESS(context->name) : 0;
    context->is_name = !address;
    ASN1_OCTET_STRING_free(address);
    context->ssl = SSL_CTX_new(TLS_client_method());
    int is_made = context->name && context->ssl && set_up(context, ca_file, certificate, key, verifies, protocols);
    ERR_clear_error();
    if (is_made) return context;
    ctls_context_free(context);
    return 0;
}

void ctls_context_free(ctls_context *context) {
    forget_sessions(context);
    SSL_CTX_free(context->ssl);
    free(context->name);
    free(context);
}

// Connections

ctls_connection *ctls_connection_make(SSL_CTX *context, int descriptor) {
    pthread_once(&method_once, make_method);
    ctls_connection *connection = calloc(1, sizeof *connection);
    SSL *ssl = connection ? SSL_new(context) : 0;
    BIO *bio = ssl && method ? BIO_new(method) : 0;
    if (!bio) {
        SSL_free(ssl);
        free(connection);
        ERR_clear_error();
        return 0;
    }
    BIO_set_data(bio, connection);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    connection->ssl = ssl;
    connection->descriptor = descriptor;
    connection->first_byte = -1;
    connection->alert = -1;
    return connection;
}

ctls_connection *ctls_open(ctls_context *context, int descriptor) {
    ctls_connection *connection = ctls_connection_make(context->ssl, descriptor);
    if (!connection) return 0;
    SSL_set_connect_state(connection->ssl);
    connection->context = context;
    if (context->is_name && !SSL_set_tlsext_host_name(connection->ssl, context->name)) {
        ctls_close(connection);
        return 0;
    }
    resume_session(connection);
    return connection;
}

void ctls_close(ctls_connection *connection) {
    ERR_clear_error();
    if (connection->is_agreed && !connection->is_broken) SSL_shutdown(connection->ssl);
    SSL_free(connection->ssl);
    free(connection->name);
    free(connection->certificate);
    free(connection);
    ERR_clear_error();
}

// OpenSSL's error contains the number of a received fatal alert.
static void note_error(ctls_connection *connection) {
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_REASON(error);
    connection->error = error;
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
        connection->alert = reason - SSL_AD_REASON_OFFSET;
    }
}

int ctls_outcome(ctls_connection *connection, int result) {
    switch (SSL_get_error(connection->ssl, result)) {
    case SSL_ERROR_WANT_READ: return CTLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE: return CTLS_WANTS_WRITE;
    case SSL_ERROR_ZERO_RETURN: return CTLS_CLOSED;
    // The connection was cut, which anyone on the path can do. Its sessions stay usable.
    case SSL_ERROR_SYSCALL: break;
    default:
        note_error(connection);
        // A connection that ended with a fatal alert must not be resumed (RFC 5246 §7.2.2).
        if (connection->context && ERR_GET_REASON(ERR_peek_error()) != SSL_R_UNEXPECTED_EOF_WHILE_READING) {
            forget_sessions(connection->context);
        }
    }
    connection->is_broken = 1;
    return CTLS_BROKEN;
}

int ctls_handshake(ctls_connection *connection) {
    ERR_clear_error();
    int result = SSL_do_handshake(connection->ssl);
    if (result == 1) {
        connection->is_agreed = 1;
        return 0;
    }
    int end = ctls_outcome(connection, result);
    if (end != CTLS_BROKEN && end != CTLS_CLOSED) return end;
    // The resumed session may be the cause.
    forget_sessions(connection->context);
    int is_untrusted = SSL_get_verify_result(connection->ssl) != X509_V_OK;
    ERR_clear_error();
    return is_untrusted ? CTLS_UNTRUSTED : CTLS_BROKEN;
}

long ctls_verification(const ctls_connection *connection) { return SSL_get_verify_result(connection->ssl); }

unsigned long ctls_error(const ctls_connection *connection) { return connection->error; }

int ctls_alert(const ctls_connection *connection) { return connection->alert; }

int ctls_is_cut(const ctls_connection *connection) {
    return !connection->error || ERR_GET_REASON(connection->error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

int ctls_system_error(const ctls_connection *connection) { return connection->system_error; }

const char *ctls_refused_certificate(const ctls_connection *connection) { return connection->certificate; }

const char *ctls_verification_text(long code) { return X509_verify_cert_error_string(code); }

int ctls_is_not_tls(unsigned long error) {
    if (ERR_GET_LIB(error) != ERR_LIB_SSL) return 0;
    int reason = ERR_GET_REASON(error);
    return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST ||
           reason == SSL_R_PACKET_LENGTH_TOO_LONG;
}

_Static_assert(
    CTLS_CERTIFICATE_NO_ISSUER == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT && CTLS_CERTIFICATE_NOT_YET_VALID == X509_V_ERR_CERT_NOT_YET_VALID &&
        CTLS_CERTIFICATE_EXPIRED == X509_V_ERR_CERT_HAS_EXPIRED && CTLS_CERTIFICATE_SELF_SIGNED == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT &&
        CTLS_CERTIFICATE_SELF_SIGNED_IN_CHAIN == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN &&
        CTLS_CERTIFICATE_NO_LOCAL_ISSUER == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY &&
        CTLS_CERTIFICATE_UNVERIFIED == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE &&
        CTLS_CERTIFICATE_OTHER_HOST == X509_V_ERR_HOSTNAME_MISMATCH && CTLS_CERTIFICATE_OTHER_ADDRESS == X509_V_ERR_IP_ADDRESS_MISMATCH,
    "codes of OpenSSL");

const char *ctls_error_text(unsigned long error) { return ERR_reason_error_string(error); }

int ctls_is_resumed(const ctls_connection *connection) { return SSL_session_reused(connection->ssl); }

int ctls_is_http2(const ctls_connection *connection) {
    const unsigned char *name = 0;
    unsigned int length = 0;
    SSL_get0_alpn_selected(connection->ssl, &name, &length);
    return length == 2 && memcmp(name, "h2", 2) == 0;
}

// Removes errors of earlier calls from OpenSSL's queue. The queue is nearly always empty, and peeking costs a quarter of clearing.
static void clear_errors(void) {
    if (ERR_peek_error()) ERR_clear_error();
}

ptrdiff_t ctls_read(ctls_connection *connection, void *bytes, size_t count) {
    for (int records = 0; records < BARE_RECORDS; records++) {
        size_t taken = 0;
        clear_errors();
        connection->is_blocked = 0;
        int result = SSL_read_ex(connection->ssl, bytes, count, &taken);
        if (result == 1) return (ptrdiff_t)taken;
        int end = ctls_outcome(connection, result);
        // The kernel had more data: a record without content was read, and the next record may have content.
        if (end != CTLS_WANTS_READ || connection->is_blocked) return end;
    }
    connection->is_broken = 1;
    return CTLS_BROKEN;
}

ptrdiff_t ctls_write(ctls_connection *connection, const void *bytes, size_t count) {
    size_t taken = 0;
    clear_errors();
    int result = SSL_write_ex(connection->ssl, bytes, count, &taken);
    return result == 1 ? (ptrdiff_t)taken : ctls_outcome(connection, result);
}

int ctls_is_quiet(ctls_connection *connection) {
    if (!SSL_has_pending(connection->ssl) && csystem_is_quiet(connection->descriptor)) return 1;
    char byte;
    // A partially received record also means that the connection is not quiet.
    return ctls_read(connection, &byte, 1) == CTLS_WANTS_READ && !SSL_has_pending(connection->ssl);
}

uint64_t ctls_written(const ctls_connection *connection) { return connection->written; }

const char *ctls_library_version(void) { return OpenSSL_version(OPENSSL_VERSION_STRING); }
