// One connection of either side, as the files of this room share it.
#ifndef CTLSCONNECTION_H
#define CTLSCONNECTION_H

#include "CTLS.h"
#include "CTLSServer.h"
#include <openssl/ssl.h>

struct ctls_connection {
    SSL *ssl;
    // With an upstream: where its session comes from and goes to.
    ctls_context *context;
    int descriptor;
    // The kernel had nothing more, or took no more, in this call.
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

    // With a client.
    ctls_tickets *tickets;
    // What it has asked for; null where that is nothing, or known no more.
    char *name;
    // The schemes of elliptic curves by which servers may sign, as bits of `curve_schemes`.
    unsigned schemes;
    int is_chosen;
    long session_seconds;
    int offers_http2;
    int failure;
    // Of all that it has sent; -1 before it comes.
    int first_byte;
};

// A connection without a role yet. Null where there is no memory.
ctls_connection *ctls_connection_make(SSL_CTX *ssl, int descriptor);
// What a call of OpenSSL's came to that did not bring what was asked for.
int ctls_outcome(ctls_connection *connection, int result);

#endif
