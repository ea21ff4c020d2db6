// TLS with an upstream (with clients: CTLSServer.h), on a socket that is connected already and does not block: OpenSSL behind a handful of calls that say what they wait
// for. Each object belongs to one thread at a time. Nothing here raises SIGPIPE.
#ifndef CTLS_H
#define CTLS_H

#include <stddef.h>
#include <stdint.h>

// What is the same for all connections to one upstream: trusted authorities, our certificate, the sessions to resume.
typedef struct ctls_context ctls_context;
typedef struct ctls_connection ctls_connection;

// What a call comes to where it is not a count of bytes.
enum {
    // To be called again when the socket is readable, or writable. Writing is repeated with the same bytes.
    CTLS_WANTS_READ = -1,
    CTLS_WANTS_WRITE = -2,
    // The peer has said that it sends no more (close_notify).
    CTLS_CLOSED = -3,
    // Cut, or not TLS as it should be.
    CTLS_BROKEN = -4,
    // The peer's certificate is not one to be trusted for this host.
    CTLS_UNTRUSTED = -5,
};

// What is offered to the peer (RFC 7301); with CTLS_HTTP1_2 it may choose. CTLS_NO_PROTOCOL: nothing is said of HTTP, since another protocol is spoken.
enum { CTLS_HTTP1, CTLS_HTTP2, CTLS_HTTP1_2, CTLS_NO_PROTOCOL };

// `host` is a name or an address. `protocols`: one of those above. Null for a file that is not given: the system's authorities, no certificate of our own.
// Null where a file cannot be used, or there is no memory.
ctls_context *ctls_context_make(
    const char *host, const char *ca_file, const char *certificate, const char *key, int verifies, int protocols);
// After all of its connections.
void ctls_context_free(ctls_context *context);

// Uses `descriptor`, and leaves it to the caller. Null where there is no memory.
ctls_connection *ctls_open(ctls_context *context, int descriptor);
// Says that we send no more, where that can be said at once. Before the descriptor is closed.
void ctls_close(ctls_connection *connection);

// 0 when TLS is agreed, and the certificate found good.
int ctls_handshake(ctls_connection *connection);
// Causes of a broken connection. A code of X509_verify_cert_error_string; 0 if the certificate was not refused.
long ctls_verification(const ctls_connection *connection);
// A packed error; 0 if there is none.
unsigned long ctls_error(const ctls_connection *connection);
// The number of the fatal alert that the peer sent; -1 if it sent none.
int ctls_alert(const ctls_connection *connection);
// Whether the peer, or the network, closed the connection without a TLS alert.
int ctls_is_cut(const ctls_connection *connection);
// errno of the failed system call; 0 if none failed.
int ctls_system_error(const ctls_connection *connection);
// Names, issuer and validity of a refused certificate; otherwise null. Valid while the connection exists. The peer controls the text.
const char *ctls_refused_certificate(const ctls_connection *connection);
// Static texts of the library. The second one may be null.
const char *ctls_verification_text(long code);
const char *ctls_error_text(unsigned long error);
// Whether the error means that the peer does not speak TLS.
int ctls_is_not_tls(unsigned long error);
// Codes of ctls_verification.
enum {
    CTLS_CERTIFICATE_NO_ISSUER = 2,
    CTLS_CERTIFICATE_NOT_YET_VALID = 9,
    CTLS_CERTIFICATE_EXPIRED = 10,
    CTLS_CERTIFICATE_SELF_SIGNED = 18,
    CTLS_CERTIFICATE_SELF_SIGNED_IN_CHAIN = 19,
    CTLS_CERTIFICATE_NO_LOCAL_ISSUER = 20,
    CTLS_CERTIFICATE_UNVERIFIED = 21,
    CTLS_CERTIFICATE_OTHER_HOST = 62,
    CTLS_CERTIFICATE_OTHER_ADDRESS = 64,
};
// Whether a session was resumed.
int ctls_is_resumed(const ctls_connection *connection);
// Whether the peer has chosen HTTP/2 (RFC 7301).
int ctls_is_http2(const ctls_connection *connection);
ptrdiff_t ctls_read(ctls_connection *connection, void *bytes, size_t count);
ptrdiff_t ctls_write(ctls_connection *connection, const void *bytes, size_t count);
// Whether it stands, and nothing that is content has come. Takes in what is TLS's own business.
int ctls_is_quiet(ctls_connection *connection);
// Bytes handed to the kernel so far.
uint64_t ctls_written(const ctls_connection *connection);

// The version of OpenSSL, such as 3.5.1.
const char *ctls_library_version(void);

#include "CSignature.h"
#include "CTLSServer.h"

#endif
