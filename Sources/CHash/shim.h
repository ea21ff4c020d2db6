// Keyed and fast hashes: libsodium's BLAKE2b for credentials, XXH3 for keys and checksums.
#include <sodium.h>
#include <xxhash.h>
