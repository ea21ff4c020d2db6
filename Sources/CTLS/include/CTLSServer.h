// TLS with clients, with OpenSSL. Reading, writing and ending are as in CTLS.h. No call reads a file: settings are validated before. Each
// object belongs to one thread at a time, except the ticket keys, which all threads share.
#ifndef CTLSSERVER_H
#define CTLSSERVER_H

#include "CTLS.h"

// A certificate, its key, and the authorities that are trusted for client certificates.
typedef struct ctls_server ctls_server;
// The keys of session tickets: the current one, and two older ones that are still accepted.
typedef struct ctls_tickets ctls_tickets;

ctls_tickets *ctls_tickets_make(void);
void ctls_tickets_free(ctls_tickets *tickets);
// Adds a new key and removes the oldest. Callable on any thread. 0 if no random numbers are available.
int ctls_tickets_rotate(ctls_tickets *tickets);
// Size of the serialized keys; serializes the keys, returns the number of bytes; reads them, null if they are invalid.
size_t ctls_tickets_size(void);
size_t ctls_tickets_write(ctls_tickets *tickets, void *bytes);
ctls_tickets *ctls_tickets_read(const void *bytes, size_t count);

// Borrowed bytes.
typedef struct {
    const void *bytes;
    size_t count;
} ctls_bytes;

enum { CTLS_ASKS_NOT = 0, CTLS_ASKS_OPTIONALLY = 1, CTLS_ASKS_ALWAYS = 2 };

typedef struct {
    // PEM: the certificate, followed by those of its issuers.
    ctls_bytes certificates;
    ctls_bytes key;
    // PEM: authorities that are trusted for client certificates. Empty: none.
    ctls_bytes client_authorities;
    // How long a session can be resumed.
    long session_seconds;
} ctls_server_settings;

// Null if the key does not match, a PEM text is invalid, or memory is exhausted.
ctls_server *ctls_server_make(const ctls_server_settings *settings);
// Connections keep references to what they need.
void ctls_server_free(ctls_server *server);

// Why a handshake failed.
enum {
    CTLS_FAILED = 0,
    // The client closed the connection.
    CTLS_FAILED_ENDED,
    // The client speaks plain HTTP.
    CTLS_FAILED_CLEAR,
    // No common version, cipher suite or group.
    CTLS_FAILED_PARAMETERS,
    // The client offers only protocols other than HTTP.
    CTLS_FAILED_PROTOCOL,
    // The client's certificate is missing or invalid.
    CTLS_FAILED_CERTIFICATE,
    // The client sent an alert, usually because it does not trust our certificate.
    CTLS_FAILED_REFUSED,
};

// The server name is known: call `ctls_accept_choose`, then continue.
enum { CTLS_WANTS_CHOICE = -6 };

// Uses `descriptor`; the caller keeps ownership. `server` is used until another one is chosen. Null if memory is exhausted.
ctls_connection *ctls_accept(ctls_server *server, ctls_tickets *tickets, int descriptor);
// 0 when the handshake is complete; what it waits for; CTLS_BROKEN.
int ctls_accept_step(ctls_connection *connection);
int ctls_accept_failure(const ctls_connection *connection);
// Server name requested by the client (SNI), in lower case; empty if there is none. Valid until the handshake is complete.
const char *ctls_accept_name(const ctls_connection *connection);
// Whether the client accepts certificates with keys of this signature scheme (RFC 8446 §4.2.3). Valid until the handshake is complete.
int ctls_accept_takes(const ctls_connection *connection, int scheme);
// `asks`: whether to request a client certificate. `listener`: an identifier that must match for a session to be resumed, besides the name
// and the rules for client certificates.
int ctls_accept_choose(ctls_connection *connection, const ctls_server *server, int asks, ctls_bytes listener, int offers_http2);
// Version of TLS, such as TLSv1.3.
const char *ctls_version(const ctls_connection *connection);
// Releases the record buffers. The next record allocates them again.
void ctls_free_buffers(ctls_connection *connection);
// Whether content may be available that was already read from the socket.
int ctls_holds_input(const ctls_connection *connection);
// Whether the client ended the connection, with or without close_notify.
int ctls_was_ended(const ctls_connection *connection);
// Sends close_notify. Returns CTLS_WANTS_WRITE if the socket buffer is full: keep the descriptor open and call again when it is writable.
// Otherwise returns 0.
int ctls_end_sending(ctls_connection *connection);
// Ends without close_notify, so that the client does not take a truncated response for complete.
void ctls_spoil(ctls_connection *connection);

// A verified client certificate.
typedef struct {
    // In the form of RFC 4514.
    char *subject;
    size_t subject_count;
    unsigned char *der;
    size_t der_count;
    // SHA-256 of the issuer's and subject's names, and of the key.
    unsigned char names_hash[32];
    unsigned char key_hash[32];
} ctls_client_certificate;

// 0 if there is none.
int ctls_client_certificate_read(const ctls_connection *connection, ctls_client_certificate *certificate);
void ctls_client_certificate_free(ctls_client_certificate *certificate);

// Facts about a certificate and its key, available before use.
typedef struct {
    int has_certificate;
    int has_key;
    int key_fits;
    // Whether each certificate is issued by the next.
    int is_chain_in_order;
    // Whether the last certificate is self-signed or its issuer is known to this machine.
    int is_chain_whole;
    int is_rsa;
    // Signature scheme of an elliptic-curve key (RFC 8446 §4.2.3); 0 for other keys.
    int scheme;
    // Seconds since 1970.
    int64_t not_before;
    int64_t not_after;
    // DNS names, each with a terminating zero.
    char *names;
    size_t names_count;
    unsigned char hash[32];
} ctls_certificate_facts;

void ctls_certificate_inspect(ctls_bytes certificates, ctls_bytes key, ctls_certificate_facts *facts);
void ctls_certificate_facts_free(ctls_certificate_facts *facts);
// Number of certificates in this PEM text.
int ctls_count_certificates(ctls_bytes certificates);

// Makes a self-signed certificate for comma-separated names and addresses, and its key, both in PEM. For local development. 0 on failure.
int ctls_make_self_signed(const char *names, int days, char **certificate, size_t *certificate_count, char **key, size_t *key_count);
void ctls_free(void *bytes);

#endif
