// Public keys made of the numbers of a JSON Web Key (RFC 7518 §6, RFC 8037 §2), and signatures checked with them, by OpenSSL; and keys and
// signatures of one kind, Ed25519, as a sample issuer makes them. A key may be used by several threads at a time.
#ifndef CSIGNATURE_H
#define CSIGNATURE_H

#include <stddef.h>
#include <stdint.h>

typedef struct evp_pkey_st csignature_key;

enum csignature_curve { CSIGNATURE_P256, CSIGNATURE_P384, CSIGNATURE_P521, CSIGNATURE_ED25519, CSIGNATURE_ED448 };
enum csignature_scheme { CSIGNATURE_PKCS1, CSIGNATURE_PSS, CSIGNATURE_ECDSA, CSIGNATURE_EDDSA };

// Null where the numbers are no key. All are in network byte order.
csignature_key *csignature_rsa_key(const uint8_t *modulus, size_t modulus_length, const uint8_t *exponent, size_t exponent_length);
csignature_key *csignature_ec_key(enum csignature_curve curve, const uint8_t *x, const uint8_t *y, size_t length);
csignature_key *csignature_edwards_key(enum csignature_curve curve, const uint8_t *x, size_t length);
void csignature_free(csignature_key *key);
int csignature_bits(const csignature_key *key);

// 1 where the signature is the key's for the message. `bits` is the hash's length: 256, 384 or 512; EdDSA has its own.
int csignature_verify(
    csignature_key *key, enum csignature_scheme scheme, int bits, const uint8_t *message, size_t message_length,
    const uint8_t *signature, size_t signature_length);

// A new pair of keys for Ed25519, null where none can be made; its public number; and a signature, 1 where it is made.
#define CSIGNATURE_ED25519_KEY_BYTES 32
#define CSIGNATURE_ED25519_BYTES 64
csignature_key *csignature_edwards_make(void);
void csignature_edwards_public(csignature_key *key, uint8_t *x);
int csignature_edwards_sign(csignature_key *key, const char *message, size_t message_length, uint8_t *signature);

#endif
