// Keyed and fast hashes: libsodium's BLAKE2b for credentials, XXH3 for keys and checksums.
#include <sodium.h>
#include <xxhash.h>

// Makes libsodium ready, once: with its own random numbers, which ask the kernel for a seed in each thread, and not for each record that is sealed.
// Negative where there are none.
static inline int chash_start(void) {
    int result = sodium_init();
    if (result == 0) randombytes_set_implementation(&randombytes_internal_implementation);
    return result;
}
