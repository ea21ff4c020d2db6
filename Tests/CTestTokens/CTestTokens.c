#include "CTestTokens.h"
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <string.h>

test_key *test_key_make(const char *kind) {
    if (!strncmp(kind, "RSA", 3)) return EVP_PKEY_Q_keygen(0, 0, "RSA", (size_t)(strcmp(kind, "RSA1024") ? 2048 : 1024));
    if (!strncmp(kind, "P-", 2)) return EVP_PKEY_Q_keygen(0, 0, "EC", kind);
    return EVP_PKEY_Q_keygen(0, 0, kind);
}

void test_key_free(test_key *key) { EVP_PKEY_free(key); }

static size_t number(test_key *key, const char *name, size_t width, uint8_t *bytes, size_t capacity) {
    BIGNUM *value = 0;
    if (!EVP_PKEY_get_bn_param(key, name, &value)) return 0;
    size_t length = width ? width : (size_t)BN_num_bytes(value);
    int is_written = length <= capacity && BN_bn2binpad(value, bytes, (int)length) >= 0;
    BN_free(value);
    return is_written ? length : 0;
}

size_t test_key_number(test_key *key, const char *name, uint8_t *bytes, size_t capacity) {
    if (EVP_PKEY_is_a(key, "EC")) {
        size_t width = ((size_t)EVP_PKEY_get_bits(key) + 7) / 8;
        return number(key, *name == 'x' ? OSSL_PKEY_PARAM_EC_PUB_X : OSSL_PKEY_PARAM_EC_PUB_Y, width, bytes, capacity);
    }
    if (EVP_PKEY_is_a(key, "RSA")) return number(key, *name == 'n' ? OSSL_PKEY_PARAM_RSA_N : OSSL_PKEY_PARAM_RSA_E, 0, bytes, capacity);
    size_t length = capacity;
    return *name == 'x' && EVP_PKEY_get_raw_public_key(key, bytes, &length) ? length : 0;
}

static size_t plain_of(test_key *key, const uint8_t *der, size_t length, uint8_t *signature, size_t capacity) {
    size_t half = ((size_t)EVP_PKEY_get_bits(key) + 7) / 8;
    ECDSA_SIG *numbers = d2i_ECDSA_SIG(0, &der, (long)length);
    int is_written = numbers && 2 * half <= capacity && BN_bn2binpad(ECDSA_SIG_get0_r(numbers), signature, (int)half) >= 0 &&
                     BN_bn2binpad(ECDSA_SIG_get0_s(numbers), signature + half, (int)half) >= 0;
    ECDSA_SIG_free(numbers);
    return is_written ? 2 * half : 0;
}

size_t test_key_sign(
    test_key *key, int is_pss, int bits, const uint8_t *message, size_t length, uint8_t *signature, size_t capacity) {
    uint8_t made[1024];
    size_t count = sizeof made;
    const EVP_MD *hash = bits == 256 ? EVP_sha256() : bits == 384 ? EVP_sha384() : bits == 512 ? EVP_sha512() : 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *settings = 0;
    int is_made = context && EVP_DigestSignInit(context, &settings, hash, 0, key) == 1 &&
                  (!is_pss || (EVP_PKEY_CTX_set_rsa_padding(settings, RSA_PKCS1_PSS_PADDING) == 1 &&
                               EVP_PKEY_CTX_set_rsa_pss_saltlen(settings, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
                  EVP_DigestSign(context, made, &count, message, length) == 1;
    EVP_MD_CTX_free(context);
    if (!is_made) return 0;
    if (EVP_PKEY_is_a(key, "EC")) return plain_of(key, made, count, signature, capacity);
    if (count > capacity) return 0;
    memcpy(signature, made, count);
    return count;
}
