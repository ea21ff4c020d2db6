#include "CTLSConnection.h"
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Mozilla's intermediate recommendation without finite-field Diffie-Hellman: every client with TLS 1.2 supports elliptic curves.
static const char suites_12[] =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
static const char suites_13[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static const char groups[] = "X25519:prime256v1:secp384r1";

enum { KEYS = 3, NAME_BYTES = 255 };

struct ctls_server {
    SSL_CTX *ssl;
    // Hash of the authorities that are trusted for client certificates.
    unsigned char authorities[32];
    // How long a session can be resumed.
    long session_seconds;
};

// Tickets

struct ticket_key {
    unsigned char name[16];
    unsigned char cipher[32];
    unsigned char mac[32];
};

struct ctls_tickets {
    // Handshakes on all threads read the keys.
    pthread_mutex_t mutex;
    struct ticket_key keys[KEYS];
    int count;
    EVP_CIPHER *cipher;
};

static ctls_tickets *without_keys(void) {
    ctls_tickets *tickets = calloc(1, sizeof *tickets);
    if (!tickets) return 0;
    pthread_mutex_init(&tickets->mutex, 0);
    tickets->cipher = EVP_CIPHER_fetch(0, "AES-256-CBC", 0);
    if (tickets->cipher) return tickets;
    ctls_tickets_free(tickets);
    return 0;
}

ctls_tickets *ctls_tickets_make(void) {
    ctls_tickets *tickets = without_keys();
    if (!tickets) return 0;
    if (ctls_tickets_rotate(tickets)) return tickets;
    ctls_tickets_free(tickets);
    return 0;
}

void ctls_tickets_free(ctls_tickets *tickets) {
    EVP_CIPHER_free(tickets->cipher);
    OPENSSL_cleanse(tickets->keys, sizeof tickets->keys);
    pthread_mutex_destroy(&tickets->mutex);
    free(tickets);
}

int ctls_tickets_rotate(ctls_tickets *tickets) {
    struct ticket_key key;
    if (RAND_priv_bytes((unsigned char *)&key, sizeof key) != 1) return 0;
    pthread_mutex_lock(&tickets->mutex);
    memmove(tickets->keys + 1, tickets->keys, (KEYS - 1) * sizeof key);
    tickets->keys[0] = key;
    if (tickets->count < KEYS) tickets->count++;
    pthread_mutex_unlock(&tickets->mutex);
    OPENSSL_cleanse(&key, sizeof key);
    return 1;
}

size_t ctls_tickets_size(void) { return KEYS * sizeof(struct ticket_key); }

size_t ctls_tickets_write(ctls_tickets *tickets, void *bytes) {
    pthread_mutex_lock(&tickets->mutex);
    size_t size = (size_t)tickets->count * sizeof(struct ticket_key);
    memcpy(bytes, tickets->keys, size);
    pthread_mutex_unlock(&tickets->mutex);
    return size;
}

ctls_tickets *ctls_tickets_read(const void *bytes, size_t count) {
    size_t keys = count / sizeof(struct ticket_key);
    if (keys < 1 || keys > KEYS || count % sizeof(struct ticket_key)) return 0;
    ctls_tickets *tickets = without_keys();
    if (!tickets) return 0;
    memcpy(tickets->keys, bytes, count);
    tickets->count = (int)keys;
    return tickets;
}

// Returns the index of the key with this name; -1 if there is none. A null name selects the key for new tickets.
static int find_key(ctls_tickets *tickets, const unsigned char *name, struct ticket_key *key) {
    int place = name ? -1 : 0;
    pthread_mutex_lock(&tickets->mutex);
    for (int index = 0; name && index < tickets->count; index++) {
        if (memcmp(tickets->keys[index].name, name, sizeof key->name) == 0) place = index;
    }
    if (place >= 0) *key = tickets->keys[place];
    pthread_mutex_unlock(&tickets->mutex);
    return place;
}

static int ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int makes) {
    ctls_connection *connection = SSL_get_app_data(ssl);
    ctls_tickets *tickets = connection->tickets;
    struct ticket_key key;
    int place = find_key(tickets, makes ? 0 : name, &key);
    if (place < 0) return 0;
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.mac, sizeof key.mac),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    int is_set = EVP_MAC_CTX_set_params(mac, parameters);
    if (makes) {
        memcpy(name, key.name, sizeof key.name);
        is_set = is_set && RAND_bytes(iv, EVP_CIPHER_get_iv_length(tickets->cipher)) == 1 &&
                 EVP_EncryptInit_ex2(cipher, tickets->cipher, key.cipher, iv, 0);
    } else {
        is_set = is_set && EVP_DecryptInit_ex2(cipher, tickets->cipher, key.cipher, iv, 0);
    }
    OPENSSL_cleanse(&key, sizeof key);
    if (!is_set) return -1;
    // 2 issues a new ticket. TLS 1.3 always gets a new one, because clients use a ticket once (RFC 8446 §C.4).
    return place == 0 && SSL_version(ssl) < TLS1_3_VERSION ? 1 : 2;
}

// A session is not resumed if its client certificate has expired. The client must present a certificate again.
static SSL_TICKET_RETURN judge_ticket(
    SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t count, SSL_TICKET_STATUS status, void *unused) {
    (void)name, (void)count, (void)unused;
    X509 *client = session ? SSL_SESSION_get0_peer(session) : 0;
    // The lifetime in the ticket comes from the first certificate's settings, even if another certificate was chosen.
    const ctls_connection *connection = SSL_get_app_data(ssl);
    if (session && (long)(time(0) - SSL_SESSION_get_time(session)) >= connection->session_seconds) return SSL_TICKET_RETURN_IGNORE_RENEW;
    if (client && X509_cmp_current_time(X509_get0_notAfter(client)) <= 0) return SSL_TICKET_RETURN_IGNORE_RENEW;
    switch (status) {
    case SSL_TICKET_SUCCESS: return SSL_TICKET_RETURN_USE;
    case SSL_TICKET_SUCCESS_RENEW: return SSL_TICKET_RETURN_USE_RENEW;
    default: return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
}

// What the client asks for

// RFC 6066 §3: a list of names, one of which is a host name.
static void take_name(ctls_connection *connection, const unsigned char *bytes, size_t count) {
    if (count < 5 || (size_t)(bytes[0] << 8 | bytes[1]) != count - 2 || bytes[2] != TLSEXT_NAMETYPE_host_name) return;
    size_t length = (size_t)(bytes[3] << 8 | bytes[4]);
    if (length == 0 || length > NAME_BYTES || length > count - 5 || memchr(bytes + 5, 0, length)) return;
    char *name = malloc(length + 1);
    if (!name) return;
    for (size_t index = 0; index < length; index++) {
        char letter = (char)bytes[5 + index];
        name[index] = letter >= 'A' && letter <= 'Z' ? (char)(letter + 32) : letter;
    }
    name[length] = 0;
    free(connection->name);
    connection->name = name;
}

// Signature schemes of elliptic-curve keys: ECDSA with P-256, P-384 and P-521, and Ed25519.
static const int curve_schemes[] = {0x0403, 0x0503, 0x0603, 0x0807};
enum { CURVE_SCHEMES = sizeof curve_schemes / sizeof *curve_schemes };

static unsigned two_bytes(const unsigned char *bytes) { return (unsigned)(bytes[0] << 8 | bytes[1]); }

static int names_13(SSL *ssl) {
    const unsigned char *bytes;
    size_t count;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_supported_versions, &bytes, &count) != 1) return 0;
    for (size_t index = 1; index + 1 < count; index += 2) {
        if (two_bytes(bytes + index) == TLS1_3_VERSION) return 1;
    }
    return 0;
}

// In TLS 1.3 only the signature scheme determines the key type. Before 1.3 the cipher suite names it too (RFC 8422 §2).
static int has_curve_suite(SSL *ssl) {
    if (names_13(ssl)) return 1;
    const unsigned char *bytes;
    size_t count = SSL_client_hello_get0_ciphers(ssl, &bytes);
    for (size_t index = 0; index + 1 < count; index += 2) {
        switch (two_bytes(bytes + index)) {
        case 0xc02b:
        case 0xc02c:
        case 0xcca9: return 1;
        }
    }
    return 0;
}

static unsigned read_schemes(SSL *ssl) {
    const unsigned char *bytes;
    size_t count;
    unsigned schemes = 0;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_signature_algorithms, &bytes, &count) != 1 || !has_curve_suite(ssl)) return 0;
    for (size_t index = 2; index + 1 < count; index += 2) {
        for (int place = 0; place < CURVE_SCHEMES; place++) {
            if (two_bytes(bytes + index) == (unsigned)curve_schemes[place]) schemes |= 1u << place;
        }
    }
    return schemes;
}

// Called a second time when the certificate has been chosen.
static int hello(SSL *ssl, int *alert, void *unused) {
    (void)alert, (void)unused;
    ctls_connection *connection = SSL_get_app_data(ssl);
    if (connection->is_chosen) return SSL_CLIENT_HELLO_SUCCESS;
    const unsigned char *bytes;
    size_t count;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &bytes, &count) == 1) take_name(connection, bytes, count);
    connection->schemes = read_schemes(ssl);
    return SSL_CLIENT_HELLO_RETRY;
}

// RFC 7301 §3.2: a client that offers none of our protocols gets an alert.
static int choose_protocol(
    SSL *ssl, const unsigned char **chosen, unsigned char *chosen_count, const unsigned char *offered, unsigned int count, void *unused) {
    (void)unused;
    static const unsigned char both[] = "\x02h2\x08http/1.1";
    ctls_connection *connection = SSL_get_app_data(ssl);
    size_t skipped = connection->offers_http2 ? 0 : 3;
    unsigned char *found = 0;
    int result = SSL_select_next_proto(&found, chosen_count, both + skipped, (unsigned)(sizeof both - 1 - skipped), offered, count);
    if (result != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

// Servers

// A key with a passphrase is rejected instead of prompting for it.
static int no_passphrase(char *space, int size, int writes, void *unused) {
    (void)space, (void)size, (void)writes, (void)unused;
    return -1;
}

static BIO *reader(ctls_bytes bytes) { return bytes.count > 0 && bytes.count < 1 << 24 ? BIO_new_mem_buf(bytes.bytes, (int)bytes.count) : 0; }

static STACK_OF(X509) * read_certificates(ctls_bytes bytes) {
    STACK_OF(X509) *all = sk_X509_new_null();
    BIO *bio = reader(bytes);
    X509 *one;
    while (all && bio && (one = PEM_read_bio_X509(bio, 0, no_passphrase, 0))) {
        if (!sk_X509_push(all, one)) X509_free(one);
    }
    BIO_free(bio);
    ERR_clear_error();
    return all;
}

static EVP_PKEY *read_key(ctls_bytes bytes) {
    BIO *bio = reader(bytes);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, 0, no_passphrase, 0) : 0;
    BIO_free(bio);
    ERR_clear_error();
    return key;
}

static void free_certificates(STACK_OF(X509) * all) { sk_X509_pop_free(all, X509_free); }

static int use_certificates(SSL_CTX *ssl, ctls_bytes certificates, ctls_bytes key) {
    STACK_OF(X509) *all = read_certificates(certificates);
    EVP_PKEY *own = read_key(key);
    int is_used = sk_X509_num(all) > 0 && own && SSL_CTX_use_certificate(ssl, sk_X509_value(all, 0)) == 1 &&
                  SSL_CTX_use_PrivateKey(ssl, own) == 1 && SSL_CTX_check_private_key(ssl) == 1;
    for (int index = 1; is_used && index < sk_X509_num(all); index++) is_used = SSL_CTX_add1_chain_cert(ssl, sk_X509_value(all, index)) == 1;
    EVP_PKEY_free(own);
    free_certificates(all);
    return is_used;
}

static int use_authorities(SSL_CTX *ssl, ctls_bytes authorities) {
    STACK_OF(X509) *all = read_certificates(authorities);
    int is_used = sk_X509_num(all) > 0;
    for (int index = 0; is_used && index < sk_X509_num(all); index++) {
        X509 *one = sk_X509_value(all, index);
        is_used = X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), one) == 1 && SSL_CTX_add_client_CA(ssl, one) == 1;
    }
    free_certificates(all);
    // An issuer in the file is trusted even if its own issuer is not in the file.
    if (is_used) X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ssl), X509_V_FLAG_PARTIAL_CHAIN);
    return is_used;
}

static int set_up(ctls_server *server, const ctls_server_settings *settings) {
    SSL_CTX *ssl = server->ssl;
    SSL_CTX_clear_options(ssl, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_clear_mode(ssl, SSL_MODE_AUTO_RETRY | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ssl, 1);
    // Tickets hold the whole session: nothing is stored here, and every shard can resume it.
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_timeout(ssl, settings->session_seconds);
    server->session_seconds = settings->session_seconds;
    SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, ticket_key);
    SSL_CTX_set_session_ticket_cb(ssl, 0, judge_ticket, 0);
    SSL_CTX_set_client_hello_cb(ssl, hello, 0);
    SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, 0);
    SSL_CTX_set_max_early_data(ssl, 0);
    if (settings->client_authorities.count > 0 && !use_authorities(ssl, settings->client_authorities)) return 0;
    return SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) && SSL_CTX_set_max_proto_version(ssl, 0) &&
           SSL_CTX_set_cipher_list(ssl, suites_12) && SSL_CTX_set_ciphersuites(ssl, suites_13) && SSL_CTX_set1_groups_list(ssl, groups) &&
           use_certificates(ssl, settings->certificates, settings->key) &&
           EVP_Digest(settings->client_authorities.bytes, settings->client_authorities.count, server->authorities, 0, EVP_sha256(), 0);
}

ctls_server *ctls_server_make(const ctls_server_settings *settings) {
    ctls_server *server = calloc(1, sizeof *server);
    if (!server) return 0;
    server->ssl = SSL_CTX_new(TLS_server_method());
    int is_made = server->ssl && set_up(server, settings);
    ERR_clear_error();
    if (is_made) return server;
    ctls_server_free(server);
    return 0;
}

void ctls_server_free(ctls_server *server) {
    SSL_CTX_free(server->ssl);
    free(server);
}

// Connections

ctls_connection *ctls_accept(ctls_server *server, ctls_tickets *tickets, int descriptor) {
    ctls_connection *connection = ctls_connection_make(server->ssl, descriptor);
    if (!connection) return 0;
    SSL_set_app_data(connection->ssl, connection);
    SSL_set_accept_state(connection->ssl);
    connection->tickets = tickets;
    return connection;
}

static int failure(const ctls_connection *connection) {
    int first = connection->first_byte;
    if ((first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z')) return CTLS_FAILED_CLEAR;
    int reason = ERR_GET_REASON(ERR_peek_error());
    switch (reason) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_UNKNOWN_PROTOCOL:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_GROUPS:
    case SSL_R_INAPPROPRIATE_FALLBACK: return CTLS_FAILED_PARAMETERS;
    case SSL_R_NO_APPLICATION_PROTOCOL: return CTLS_FAILED_PROTOCOL;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_NO_CERTIFICATE_SET: return CTLS_FAILED_CERTIFICATE;
    }
    if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) return CTLS_FAILED_REFUSED;
    return connection->is_at_end || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING || reason == 0 ? CTLS_FAILED_ENDED : CTLS_FAILED;
}

int ctls_accept_step(ctls_connection *connection) {
    ERR_clear_error();
    int result = SSL_do_handshake(connection->ssl);
    if (result == 1) {
        connection->is_agreed = 1;
        free(connection->name);
        connection->name = 0;
        return 0;
    }
    if (SSL_get_error(connection->ssl, result) == SSL_ERROR_WANT_CLIENT_HELLO_CB) return CTLS_WANTS_CHOICE;
    int reason = failure(connection);
    int end = ctls_outcome(connection, result);
    if (end == CTLS_WANTS_READ || end == CTLS_WANTS_WRITE) return end;
    connection->failure = reason;
    connection->is_broken = 1;
    ERR_clear_error();
    return CTLS_BROKEN;
}

int ctls_accept_failure(const ctls_connection *connection) { return connection->failure; }

const char *ctls_accept_name(const ctls_connection *connection) { return connection->name ? connection->name : ""; }

int ctls_accept_takes(const ctls_connection *connection, int scheme) {
    for (int place = 0; place < CURVE_SCHEMES; place++) {
        if (curve_schemes[place] == scheme) return connection->schemes >> place & 1;
    }
    return 0;
}

int ctls_accept_choose(ctls_connection *connection, const ctls_server *server, int asks, ctls_bytes listener, int offers_http2) {
    static const int modes[] = {SSL_VERIFY_NONE, SSL_VERIFY_PEER, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT};
    SSL *ssl = connection->ssl;
    unsigned char binding[32];
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    const char *name = ctls_accept_name(connection);
    // The hash includes the name's terminating zero, so two bindings never have equal input.
    int is_chosen = digest && EVP_DigestInit_ex(digest, EVP_sha256(), 0) &&
                    EVP_DigestUpdate(digest, server->authorities, sizeof server->authorities) &&
                    EVP_DigestUpdate(digest, &asks, sizeof asks) &&
                    EVP_DigestUpdate(digest, name, strlen(name) + 1) && EVP_DigestUpdate(digest, listener.bytes, listener.count) &&
                    EVP_DigestFinal_ex(digest, binding, 0) &&
                    SSL_set_SSL_CTX(ssl, server->ssl) && SSL_set_session_id_context(ssl, binding, sizeof binding);
    EVP_MD_CTX_free(digest);
    if (!is_chosen) return 0;
    SSL_set_verify(ssl, modes[asks], 0);
    // As in use_authorities. The connection copied its verification parameters before the server name was known.
    X509_VERIFY_PARAM_set_flags(SSL_get0_param(ssl), X509_V_FLAG_PARTIAL_CHAIN);
    connection->session_seconds = server->session_seconds;
    connection->offers_http2 = offers_http2;
    connection->is_chosen = 1;
    return 1;
}

const char *ctls_version(const ctls_connection *connection) { return SSL_get_version(connection->ssl); }

void ctls_free_buffers(ctls_connection *connection) { SSL_free_buffers(connection->ssl); }

int ctls_holds_input(const ctls_connection *connection) { return SSL_has_pending(connection->ssl); }

int ctls_was_ended(const ctls_connection *connection) { return connection->is_at_end; }

int ctls_end_sending(ctls_connection *connection) {
    ERR_clear_error();
    int result = connection->is_agreed && !connection->is_broken ? SSL_shutdown(connection->ssl) : 1;
    int is_left = result < 0 && SSL_get_error(connection->ssl, result) == SSL_ERROR_WANT_WRITE;
    ERR_clear_error();
    return is_left ? CTLS_WANTS_WRITE : 0;
}

void ctls_spoil(ctls_connection *connection) { connection->is_broken = 1; }

// The client's certificate

static int hash_names(X509 *certificate, unsigned char *hash) {
    unsigned char *issuer = 0, *subject = 0;
    int issuer_count = i2d_X509_NAME(X509_get_issuer_name(certificate), &issuer);
    int subject_count = i2d_X509_NAME(X509_get_subject_name(certificate), &subject);
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    // Both are DER, which states its own length.
    int is_done = issuer_count > 0 && subject_count > 0 && digest && EVP_DigestInit_ex(digest, EVP_sha256(), 0) &&
                  EVP_DigestUpdate(digest, issuer, (size_t)issuer_count) && EVP_DigestUpdate(digest, subject, (size_t)subject_count) &&
                  EVP_DigestFinal_ex(digest, hash, 0);
    EVP_MD_CTX_free(digest);
    OPENSSL_free(issuer);
    OPENSSL_free(subject);
    return is_done;
}

static int hash_key(X509 *certificate, unsigned char *hash) {
    unsigned char *key = 0;
    int count = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &key);
    int is_done = count > 0 && EVP_Digest(key, (size_t)count, hash, 0, EVP_sha256(), 0);
    OPENSSL_free(key);
    return is_done;
}

static char *copy_bio(BIO *bio, size_t *count) {
    char *bytes;
    long length = BIO_get_mem_data(bio, &bytes);
    char *copy = length >= 0 ? malloc((size_t)length + 1) : 0;
    if (!copy) return 0;
    if (length > 0) memcpy(copy, bytes, (size_t)length);
    copy[length] = 0;
    *count = (size_t)length;
    return copy;
}

int ctls_client_certificate_read(const ctls_connection *connection, ctls_client_certificate *certificate) {
    memset(certificate, 0, sizeof *certificate);
    X509 *own = SSL_get0_peer_certificate(connection->ssl);
    if (!own || SSL_get_verify_result(connection->ssl) != X509_V_OK) return 0;
    BIO *text = BIO_new(BIO_s_mem());
    if (text && X509_NAME_print_ex(text, X509_get_subject_name(own), 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) >= 0) {
        certificate->subject = copy_bio(text, &certificate->subject_count);
    }
    BIO_free(text);
    int count = i2d_X509(own, &certificate->der);
    certificate->der_count = count > 0 ? (size_t)count : 0;
    int is_read = certificate->subject && count > 0 && hash_names(own, certificate->names_hash) && hash_key(own, certificate->key_hash);
    ERR_clear_error();
    if (!is_read) ctls_client_certificate_free(certificate);
    return is_read;
}

void ctls_client_certificate_free(ctls_client_certificate *certificate) {
    free(certificate->subject);
    OPENSSL_free(certificate->der);
    memset(certificate, 0, sizeof *certificate);
}

// Certificate facts

static int64_t seconds(const ASN1_TIME *time) {
    ASN1_TIME *epoch = ASN1_TIME_set(0, 0);
    int days = 0, rest = 0;
    int is_known = epoch && ASN1_TIME_diff(&days, &rest, epoch, time);
    ASN1_TIME_free(epoch);
    return is_known ? (int64_t)days * 86400 + rest : 0;
}

static void gather_names(X509 *certificate, ctls_certificate_facts *facts) {
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, 0, 0);
    BIO *gathered = BIO_new(BIO_s_mem());
    for (int index = 0; gathered && index < sk_GENERAL_NAME_num(names); index++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, index);
        if (name->type != GEN_DNS) continue;
        const unsigned char *bytes = ASN1_STRING_get0_data(name->d.dNSName);
        int count = ASN1_STRING_length(name->d.dNSName);
        if (count <= 0 || memchr(bytes, 0, (size_t)count)) continue;
        BIO_write(gathered, bytes, count);
        BIO_write(gathered, "", 1);
    }
    if (gathered) facts->names = copy_bio(gathered, &facts->names_count);
    BIO_free(gathered);
    GENERAL_NAMES_free(names);
}

static int curve_scheme(const EVP_PKEY *key) {
    switch (key ? EVP_PKEY_get_base_id(key) : NID_undef) {
    case EVP_PKEY_ED25519: return 0x0807;
    case EVP_PKEY_EC: break;
    default: return 0;
    }
    switch (EVP_PKEY_get_bits(key)) {
    case 256: return 0x0403;
    case 384: return 0x0503;
    case 521: return 0x0603;
    default: return 0;
    }
}

// Caches recent look-ups of issuers. A look-up takes 15 ms, nearly all of it to read the system's authorities.
struct found_issuer {
    unsigned char certificate[32];
    // Modification times of the system's file and directory at the time of the look-up.
    struct timespec changed[2];
    off_t size;
    int is_looked_for, is_known;
};

enum { FOUND_ISSUERS = 8 };

static pthread_mutex_t found_mutex = PTHREAD_MUTEX_INITIALIZER;
// Protected by the mutex: any thread that reads settings reads certificates.
static struct found_issuer found_issuers[FOUND_ISSUERS];
static unsigned found_count;

static const char *place_of(const char *variable, const char *otherwise) {
    const char *named = getenv(variable);
    return named ? named : otherwise;
}

static int describe(X509 *last, struct found_issuer *asked) {
    const char *places[] = {place_of(X509_get_default_cert_file_env(), X509_get_default_cert_file()),
                            place_of(X509_get_default_cert_dir_env(), X509_get_default_cert_dir())};
    memset(asked, 0, sizeof *asked);
    for (int index = 0; index < 2; index++) {
        struct stat status;
        if (stat(places[index], &status) != 0) continue;
        asked->changed[index] = status.st_mtim;
        asked->size += status.st_size;
    }
    asked->is_looked_for = 1;
    return X509_digest(last, EVP_sha256(), asked->certificate, 0);
}

static int is_issued_here(X509 *last) {
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    X509 *issuer = 0;
    int is_known = store && context && X509_STORE_set_default_paths(store) && X509_STORE_CTX_init(context, store, last, 0) &&
                   X509_STORE_CTX_get1_issuer(&issuer, context, last) == 1;
    X509_free(issuer);
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return is_known;
}

static int is_known_here(X509 *last) {
    if (X509_check_issued(last, last) == X509_V_OK) return 1;
    struct found_issuer asked;
    if (!describe(last, &asked)) return is_issued_here(last);
    pthread_mutex_lock(&found_mutex);
    int place = 0;
    while (place < FOUND_ISSUERS && memcmp(&found_issuers[place], &asked, offsetof(struct found_issuer, is_known)) != 0) place++;
    if (place < FOUND_ISSUERS) {
        asked.is_known = found_issuers[place].is_known;
    } else {
        asked.is_known = is_issued_here(last);
        found_issuers[found_count++ % FOUND_ISSUERS] = asked;
    }
    pthread_mutex_unlock(&found_mutex);
    return asked.is_known;
}

void ctls_certificate_inspect(ctls_bytes certificates, ctls_bytes key, ctls_certificate_facts *facts) {
    memset(facts, 0, sizeof *facts);
    STACK_OF(X509) *all = read_certificates(certificates);
    EVP_PKEY *own = read_key(key);
    X509 *first = sk_X509_num(all) > 0 ? sk_X509_value(all, 0) : 0;
    facts->has_certificate = first != 0;
    facts->has_key = own != 0;
    if (first) {
        facts->key_fits = own && X509_check_private_key(first, own) == 1;
        facts->not_before = seconds(X509_get0_notBefore(first));
        facts->not_after = seconds(X509_get0_notAfter(first));
        facts->is_chain_in_order = 1;
        for (int index = 1; index < sk_X509_num(all); index++) {
            if (X509_check_issued(sk_X509_value(all, index), sk_X509_value(all, index - 1)) != X509_V_OK) facts->is_chain_in_order = 0;
        }
        facts->is_chain_whole = is_known_here(sk_X509_value(all, sk_X509_num(all) - 1));
        EVP_PKEY *public = X509_get0_pubkey(first);
        facts->is_rsa = public && EVP_PKEY_get_base_id(public) == EVP_PKEY_RSA;
        facts->scheme = curve_scheme(public);
        X509_digest(first, EVP_sha256(), facts->hash, 0);
        gather_names(first, facts);
    }
    EVP_PKEY_free(own);
    free_certificates(all);
    ERR_clear_error();
}

void ctls_certificate_facts_free(ctls_certificate_facts *facts) {
    free(facts->names);
    facts->names = 0;
}

int ctls_count_certificates(ctls_bytes certificates) {
    STACK_OF(X509) *all = read_certificates(certificates);
    int count = sk_X509_num(all);
    free_certificates(all);
    return count < 0 ? 0 : count;
}

// Self-signed certificates

static int add_extension(X509 *certificate, int identifier, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, certificate, certificate, 0, 0, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(0, &context, identifier, value);
    int is_added = extension && X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return is_added;
}

static X509 *sign_self(EVP_PKEY *key, const char *names, int days) {
    X509 *certificate = X509_new();
    X509_NAME *name = certificate ? X509_get_subject_name(certificate) : 0;
    ASN1_INTEGER *serial = certificate ? X509_get_serialNumber(certificate) : 0;
    unsigned char number[8];
    int is_random = RAND_bytes(number, sizeof number) == 1;
    // OpenSSL writes leading zeros as they are, and rejects them when it reads the certificate.
    number[0] |= 0x40;
    int is_made =
        name && is_random && ASN1_STRING_set(serial, number, sizeof number) && X509_set_version(certificate, X509_VERSION_3) &&
        X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) && X509_time_adj_ex(X509_getm_notAfter(certificate), days, 0, 0) &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"cistern (self-signed)", -1, -1, 0) &&
        X509_set_issuer_name(certificate, name) && X509_set_pubkey(certificate, key) &&
        add_extension(certificate, NID_subject_alt_name, names) && add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(certificate, NID_ext_key_usage, "serverAuth") && X509_sign(certificate, key, EVP_sha256());
    if (is_made) return certificate;
    X509_free(certificate);
    return 0;
}

int ctls_make_self_signed(const char *names, int days, char **certificate, size_t *certificate_count, char **key, size_t *key_count) {
    EVP_PKEY *own = EVP_EC_gen("P-256");
    X509 *made = own ? sign_self(own, names, days) : 0;
    BIO *first = BIO_new(BIO_s_mem()), *second = BIO_new(BIO_s_mem());
    *certificate = *key = 0;
    if (made && first && second && PEM_write_bio_X509(first, made) && PEM_write_bio_PrivateKey(second, own, 0, 0, 0, 0, 0)) {
        *certificate = copy_bio(first, certificate_count);
        *key = copy_bio(second, key_count);
    }
    BIO_free(first);
    BIO_free(second);
    X509_free(made);
    EVP_PKEY_free(own);
    ERR_clear_error();
    if (*certificate && *key) return 1;
    free(*certificate);
    free(*key);
    return 0;
}

void ctls_free(void *bytes) { free(bytes); }
