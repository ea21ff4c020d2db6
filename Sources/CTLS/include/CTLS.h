// TLS with an upstream (for clients see CTLSServer.h) on a connected, non-blocking socket, with OpenSSL. Calls report what they wait for.
// Each object belongs to one thread at a time. No call raises SIGPIPE.
#ifndef CTLS_H
#define CTLS_H

#include <stddef.h>
#include <stdint.h>

// State shared by all connections to one upstream: trusted authorities, our certificate, sessions to resume.
typedef struct ctls_context ctls_context;
typedef struct ctls_connection ctls_connection;

// Results of a call other than a number of bytes.
enum {
    // Call again when the socket is readable, or writable. Repeat a write with unchanged bytes.
    CTLS_WANTS_READ = -1,
    CTLS_WANTS_WRITE = -2,
    // The peer ended its side in order (close_notify).
    CTLS_CLOSED = -3,
    // The connection was cut, or violated TLS.
    CTLS_BROKEN = -4,
    // The peer's certificate is not trusted for this host.
    CTLS_UNTRUSTED = -5,
};

// Protocols offered to the peer (RFC 7301). With CTLS_HTTP1_2 the peer chooses. CTLS_NO_PROTOCOL offers none, for protocols other than
// HTTP.
enum { CTLS_HTTP1, CTLS_HTTP2, CTLS_HTTP1_2, CTLS_NO_PROTOCOL };

// `host` is a name or an address. `protocols` is one of the constants above. A null file means the system's authorities, or no certificate
// of our own. Null if a file cannot be used or memory is exhausted.
ctls_context *ctls_context_make(
    const char *host, const char *ca_file, const char *certificate, const char *key, int verifies, int protocols);
// Call after all of its connections are closed.
void ctls_context_free(ctls_context *context);

// Uses `descriptor`; the caller keeps ownership. Null if memory is exhausted.
ctls_connection *ctls_open(ctls_context *context, int descriptor);
// Sends close_notify if that is possible without waiting. Call before the descriptor is closed.
void ctls_close(ctls_connection *connection);

// 0 when the handshake is complete and the certificate is valid.
int ctls_handshake(ctls_connection *connection);
// Causes of a broken connection. ctls_verification returns a code of X509_verify_cert_error_string; 0 if the certificate was not refused.
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
// Whether HTTP/2 was negotiated (RFC 7301).
int ctls_is_http2(const ctls_connection *connection);
ptrdiff_t ctls_read(ctls_connection *connection, void *bytes, size_t count);
ptrdiff_t ctls_write(ctls_connection *connection, const void *bytes, size_t count);
// Whether the connection is open and has no unread content. Processes records without content.
int ctls_is_quiet(ctls_connection *connection);
// Number of bytes written to the socket so far.
uint64_t ctls_written(const ctls_connection *connection);

// Version of OpenSSL, such as 3.5.1.
const char *ctls_library_version(void);

#include "CSignature.h"
#include "CTLSServer.h"

#endif
