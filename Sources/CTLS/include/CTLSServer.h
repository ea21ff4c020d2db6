// TLS with clients: OpenSSL's server side. Reading, writing and ending are as with an upstream (CTLS.h). Nothing here reads a file: what is used was
// checked before. Each object belongs to one thread at a time, but for the keys of tickets, which all share.
#ifndef CTLSSERVER_H
#define CTLSSERVER_H

#include "CTLS.h"

// One certificate, its key, and whose clients' certificates are good.
typedef struct ctls_server ctls_server;
// The keys of session tickets: one that is in use, and two older ones that are still taken.
typedef struct ctls_tickets ctls_tickets;

ctls_tickets *ctls_tickets_make(void);
void ctls_tickets_free(ctls_tickets *tickets);
// A new key; the oldest is forgotten. From any thread. 0 where there is no randomness.
int ctls_tickets_rotate(ctls_tickets *tickets);
// The keys in bytes, and back: how many there may be; how many were written; null where these are none.
size_t ctls_tickets_size(void);
size_t ctls_tickets_write(ctls_tickets *tickets, void *bytes);
ctls_tickets *ctls_tickets_read(const void *bytes, size_t count);

// Bytes that somebody else owns.
typedef struct {
    const void *bytes;
    size_t count;
} ctls_bytes;

enum { CTLS_ASKS_NOT = 0, CTLS_ASKS_OPTIONALLY = 1, CTLS_ASKS_ALWAYS = 2 };

typedef struct {
    // In PEM: the certificate, then those of its issuers.
    ctls_bytes certificates;
    ctls_bytes key;
    // In PEM: whose clients' certificates are good; empty for nobody's.
    ctls_bytes client_authorities;
    // How long a session may be resumed.
    long session_seconds;
} ctls_server_settings;

// Null where the key does not fit, nothing can be read, or there is no memory.
ctls_server *ctls_server_make(const ctls_server_settings *settings);
// Connections keep what they need.
void ctls_server_free(ctls_server *server);

// Why a handshake failed.
enum {
    CTLS_FAILED = 0,
    // The client is gone.
    CTLS_FAILED_ENDED,
    // It speaks HTTP in clear.
    CTLS_FAILED_CLEAR,
    // No version, suite or group that both have.
    CTLS_FAILED_PARAMETERS,
    // It wants to speak something else than HTTP.
    CTLS_FAILED_PROTOCOL,
    // Its certificate is missing, or not good.
    CTLS_FAILED_CERTIFICATE,
    // It has said that it does not want to go on: mostly since it does not trust our certificate.
    CTLS_FAILED_REFUSED,
};

// The client has said which name it wants: `ctls_accept_choose`, then go on.
enum { CTLS_WANTS_CHOICE = -6 };

// Uses `descriptor`, and leaves it to the caller. `server` serves to begin with. Null where there is no memory.
ctls_connection *ctls_accept(ctls_server *server, ctls_tickets *tickets, int descriptor);
// 0 when TLS is agreed; what it waits for; CTLS_BROKEN.
int ctls_accept_step(ctls_connection *connection);
int ctls_accept_failure(const ctls_connection *connection);
// The name that the client asks for, in small letters; empty where it names none. Good until TLS is agreed.
const char *ctls_accept_name(const ctls_connection *connection);
// Whether the client takes certificates whose keys sign by this scheme of TLS (RFC 8446 §4.2.3). The same.
int ctls_accept_takes(const ctls_connection *connection, int scheme);
// `asks`: for the client's certificate. `listener`: what else, beside the name and the rules for that certificate, must be the same where a
// session is resumed.
int ctls_accept_choose(ctls_connection *connection, const ctls_server *server, int asks, ctls_bytes listener, int offers_http2);
// Such as TLSv1.3.
const char *ctls_version(const ctls_connection *connection);
// Gives back the memory that records are put together in. It comes back with the next record.
void ctls_free_buffers(ctls_connection *connection);
// Whether there may be content that the kernel no longer has.
int ctls_holds_input(const ctls_connection *connection);
// Whether the client's kernel has ended it, with a word of TLS before or not.
int ctls_was_ended(const ctls_connection *connection);
// Says that we send no more. CTLS_WANTS_WRITE where the kernel has no room for that: to be called again when it has, until which the descriptor is
// to stay; else 0.
int ctls_end_sending(ctls_connection *connection);
// Nothing is said at the end: nobody shall take what was sent for whole.
void ctls_spoil(ctls_connection *connection);

// The certificate of a client, which was found good.
typedef struct {
    // RFC 4514.
    char *subject;
    size_t subject_count;
    unsigned char *der;
    size_t der_count;
    // SHA-256, of the names of issuer and subject, and of the key.
    unsigned char names_hash[32];
    unsigned char key_hash[32];
} ctls_client_certificate;

// 0 where there is none.
int ctls_client_certificate_read(const ctls_connection *connection, ctls_client_certificate *certificate);
void ctls_client_certificate_free(ctls_client_certificate *certificate);

// What can be told of a certificate and its key before they are used.
typedef struct {
    int has_certificate;
    int has_key;
    int key_fits;
    // Each is issued by the next.
    int is_chain_in_order;
    // The last one's issuer is itself, or is known to this machine.
    int is_chain_whole;
    int is_rsa;
    // By which scheme its key signs where that is one of elliptic curves (RFC 8446 §4.2.3); else 0.
    int scheme;
    // Seconds since 1970.
    int64_t not_before;
    int64_t not_after;
    // DNS names, each with a zero behind it.
    char *names;
    size_t names_count;
    unsigned char hash[32];
} ctls_certificate_facts;

void ctls_certificate_inspect(ctls_bytes certificates, ctls_bytes key, ctls_certificate_facts *facts);
void ctls_certificate_facts_free(ctls_certificate_facts *facts);
// So many certificates can be read in this.
int ctls_count_certificates(ctls_bytes certificates);

// Makes a certificate that nobody has signed, for names and addresses separated by commas, with its key, both in PEM: for local work.
// 0 where it cannot be made.
int ctls_make_self_signed(const char *names, int days, char **certificate, size_t *certificate_count, char **key, size_t *key_count);
void ctls_free(void *bytes);

#endif
