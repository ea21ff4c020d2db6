#include "CSignature.h"
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <string.h>

static csignature_key *key_from(const char *kind, OSSL_PARAM *parameters) {
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(0, kind, 0);
    EVP_PKEY *key = 0;
    if (!context || EVP_PKEY_fromdata_init(context) != 1 || EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) != 1) key = 0;
    EVP_PKEY_CTX_free(context);
    // Rejects invalid keys, such as a point that is not on its curve.
    context = key ? EVP_PKEY_CTX_new_from_pkey(0, key, 0) : 0;
    if (key && (!context || EVP_PKEY_public_check(context) != 1)) {
        EVP_PKEY_free(key);
        key = 0;
    }
    EVP_PKEY_CTX_free(context);
    ERR_clear_error();
    return key;
}

csignature_key *csignature_rsa_key(const uint8_t *modulus, size_t modulus_length, const uint8_t *exponent, size_t exponent_length) {
    if (modulus_length > 4096 || exponent_length > 16) return 0;
    BIGNUM *n = BN_bin2bn(modulus, (int)modulus_length, 0), *e = BN_bin2bn(exponent, (int)exponent_length, 0);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    OSSL_PARAM *parameters = 0;
    if (n && e && builder && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e))
        parameters = OSSL_PARAM_BLD_to_param(builder);
    csignature_key *key = parameters ? key_from("RSA", parameters) : 0;
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    BN_free(n);
    BN_free(e);
    ERR_clear_error();
    return key;
}

csignature_key *csignature_ec_key(enum csignature_curve curve, const uint8_t *x, const uint8_t *y, size_t length) {
    static const char *const groups[] = {"P-256", "P-384", "P-521"};
    static const size_t lengths[] = {32, 48, 66};
    if (curve > CSIGNATURE_P521 || length != lengths[curve]) return 0;
    uint8_t point[1 + 2 * 66] = {POINT_CONVERSION_UNCOMPRESSED};
    memcpy(point + 1, x, length);
    memcpy(point + 1 + length, y, length);
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)groups[curve], 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * length), OSSL_PARAM_construct_end()};
    return key_from("EC", parameters);
}

csignature_key *csignature_edwards_key(enum csignature_curve curve, const uint8_t *x, size_t length) {
    int kind = curve == CSIGNATURE_ED25519 ? EVP_PKEY_ED25519 : EVP_PKEY_ED448;
    csignature_key *key = EVP_PKEY_new_raw_public_key(kind, 0, x, length);
    ERR_clear_error();
    return key;
}

void csignature_free(csignature_key *key) { EVP_PKEY_free(key); }

int csignature_bits(const csignature_key *key) { return EVP_PKEY_get_bits(key); }

// Converts the two numbers of a JSON Web Signature (RFC 7518 §3.4) to DER for OpenSSL. 0 if they do not have the length of the curve.
static int der_of(const csignature_key *key, const uint8_t *signature, size_t length, uint8_t *der) {
    size_t half = ((size_t)EVP_PKEY_get_bits(key) + 7) / 8;
    if (length != 2 * half) return 0;
    ECDSA_SIG *numbers = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(signature, (int)half, 0), *s = BN_bin2bn(signature + half, (int)half, 0);
    if (!numbers || !r || !s || !ECDSA_SIG_set0(numbers, r, s)) {
        BN_free(r);
        BN_free(s);
        ECDSA_SIG_free(numbers);
        return 0;
    }
    int count = i2d_ECDSA_SIG(numbers, &der);
    ECDSA_SIG_free(numbers);
    return count > 0 ? count : 0;
}

static const EVP_MD *hash_of(enum csignature_scheme scheme, int bits) {
    if (scheme == CSIGNATURE_EDDSA) return 0;
    return bits == 256 ? EVP_sha256() : bits == 384 ? EVP_sha384() : EVP_sha512();
}

static int set_padding(EVP_PKEY_CTX *context, enum csignature_scheme scheme) {
    switch (scheme) {
    case CSIGNATURE_PKCS1: return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1;
    // RFC 7518 §3.5: the salt is as long as the hash.
    case CSIGNATURE_PSS:
        return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1 &&
               EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1;
    default: return 1;
    }
}

int csignature_verify(
    csignature_key *key, enum csignature_scheme scheme, int bits, const uint8_t *message, size_t message_length,
    const uint8_t *signature, size_t signature_length) {
    // A sequence of two numbers of up to 66 bytes, each with a tag, a length and possibly a zero byte.
    uint8_t der[2 * (66 + 4) + 8];
    if (scheme == CSIGNATURE_ECDSA) {
        signature_length = (size_t)der_of(key, signature, signature_length, der);
        signature = der;
        if (!signature_length) return 0;
    }
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *settings = 0;
    int is_valid = context && EVP_DigestVerifyInit(context, &settings, hash_of(scheme, bits), 0, key) == 1 &&
                   set_padding(settings, scheme) &&
                   EVP_DigestVerify(context, signature, signature_length, message, message_length) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return is_valid;
}

csignature_key *csignature_edwards_make(void) {
    csignature_key *key = EVP_PKEY_Q_keygen(0, 0, "ED25519");
    ERR_clear_error();
    return key;
}

void csignature_edwards_public(csignature_key *key, uint8_t *x) {
    size_t length = CSIGNATURE_ED25519_KEY_BYTES;
    EVP_PKEY_get_raw_public_key(key, x, &length);
}

int csignature_edwards_sign(csignature_key *key, const char *message, size_t message_length, uint8_t *signature) {
    size_t length = CSIGNATURE_ED25519_BYTES;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int is_made = context && EVP_DigestSignInit(context, 0, 0, 0, key) == 1 &&
                  EVP_DigestSign(context, signature, &length, (const uint8_t *)message, message_length) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return is_made;
}
