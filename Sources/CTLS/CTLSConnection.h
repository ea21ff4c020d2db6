// A TLS connection of either side, shared by the source files of this module.
#ifndef CTLSCONNECTION_H
#define CTLSCONNECTION_H

#include "CTLS.h"
#include "CTLSServer.h"
#include <openssl/ssl.h>

struct ctls_connection {
    SSL *ssl;
    // Upstream only: the context that holds the connection's sessions.
    ctls_context *context;
    int descriptor;
    // The socket had no more data, or accepted none, during this call.
    int is_blocked;
    int is_at_end;
    int is_agreed;
    int is_broken;
    uint64_t written;
    // OpenSSL's packed error of a broken connection; 0 if there is none.
    unsigned long error;
    // Number of the peer's fatal alert; -1 if it sent none.
    int alert;
    // errno of the last failed system call; 0 if none failed.
    int system_error;
    // Names, issuer and validity of a refused certificate; otherwise null.
    char *certificate;

    // Client connections only.
    ctls_tickets *tickets;
    // Requested server name (SNI); null if there is none or it was released.
    char *name;
    // Signature schemes of elliptic-curve keys that the client accepts, as bits of `curve_schemes`.
    unsigned schemes;
    int is_chosen;
    long session_seconds;
    int offers_http2;
    int failure;
    // First byte that the client sent; -1 before it arrives.
    int first_byte;
};

// Makes a connection without a role. Null if memory is exhausted.
ctls_connection *ctls_connection_make(SSL_CTX *ssl, int descriptor);
// Returns the outcome of an OpenSSL call that did not succeed.
int ctls_outcome(ctls_connection *connection, int result);

#endif
