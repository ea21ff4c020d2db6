// Public keys from the numbers of a JSON Web Key (RFC 7518 §6, RFC 8037 §2), and signature verification with OpenSSL. Also makes Ed25519
// keys and signatures for a sample issuer. Several threads may use a key at a time.
#ifndef CSIGNATURE_H
#define CSIGNATURE_H

#include <stddef.h>
#include <stdint.h>

typedef struct evp_pkey_st csignature_key;

enum csignature_curve { CSIGNATURE_P256, CSIGNATURE_P384, CSIGNATURE_P521, CSIGNATURE_ED25519, CSIGNATURE_ED448 };
enum csignature_scheme { CSIGNATURE_PKCS1, CSIGNATURE_PSS, CSIGNATURE_ECDSA, CSIGNATURE_EDDSA };

// Null if the numbers are not a valid key. All numbers are in network byte order.
csignature_key *csignature_rsa_key(const uint8_t *modulus, size_t modulus_length, const uint8_t *exponent, size_t exponent_length);
csignature_key *csignature_ec_key(enum csignature_curve curve, const uint8_t *x, const uint8_t *y, size_t length);
csignature_key *csignature_edwards_key(enum csignature_curve curve, const uint8_t *x, size_t length);
void csignature_free(csignature_key *key);
int csignature_bits(const csignature_key *key);

// 1 if the signature is valid for the key and the message. `bits` is the length of the hash: 256, 384 or 512; ignored for EdDSA.
int csignature_verify(
    csignature_key *key, enum csignature_scheme scheme, int bits, const uint8_t *message, size_t message_length,
    const uint8_t *signature, size_t signature_length);

// Makes an Ed25519 key pair, null on failure; reads its public number; signs a message, 1 on success.
#define CSIGNATURE_ED25519_KEY_BYTES 32
#define CSIGNATURE_ED25519_BYTES 64
csignature_key *csignature_edwards_make(void);
void csignature_edwards_public(csignature_key *key, uint8_t *x);
int csignature_edwards_sign(csignature_key *key, const char *message, size_t message_length, uint8_t *signature);

#endif
