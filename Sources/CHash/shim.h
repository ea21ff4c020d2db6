// Keyed and fast hashes: libsodium's BLAKE2b for credentials, XXH3 for keys and checksums.
#include <sodium.h>
#include <xxhash.h>

// Initializes libsodium, once. Its own random number generator asks the kernel for one seed per thread, not for each sealed record.
// Negative if no random numbers are available.
static inline int chash_start(void) {
    int result = sodium_init();
    if (result == 0) randombytes_set_implementation(&randombytes_internal_implementation);
    return result;
}
