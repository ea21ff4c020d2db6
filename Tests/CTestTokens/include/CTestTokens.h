// Keys and signatures of tokens, as an issuer makes them.
#ifndef CTESTTOKENS_H
#define CTESTTOKENS_H

#include <stddef.h>
#include <stdint.h>

typedef struct evp_pkey_st test_key;

// `kind`: RSA1024, RSA2048, P-256, P-384, P-521, ED25519 or ED448.
test_key *test_key_make(const char *kind);
void test_key_free(test_key *key);
// Writes a public number of the key (n, e, x, y) in network byte order. Returns its length; 0 if the key has no number of that name.
size_t test_key_number(test_key *key, const char *name, uint8_t *bytes, size_t capacity);
// `bits`: length of the hash; 0 for EdDSA. Returns the length of the signature, in the form of RFC 7518 §3.
size_t test_key_sign(
    test_key *key, int is_pss, int bits, const uint8_t *message, size_t length, uint8_t *signature, size_t capacity);

#endif
