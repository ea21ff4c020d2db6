#include <string.h>
#include <zlib.h>

// deflateInit2 and inflateInit2 are macros. 16 + window bits selects gzip (RFC 1952); -MAX_WBITS selects raw deflate (RFC 1951).
static inline int cistern_deflate_init_gzip(z_stream *stream, int level, int window_bits, int memory_level) {
    return deflateInit2(stream, level, Z_DEFLATED, 16 + window_bits, memory_level, Z_DEFAULT_STRATEGY);
}
static inline int cistern_inflate_init_raw(z_stream *stream) { return inflateInit2(stream, -MAX_WBITS); }
static inline int cistern_inflate_init_gzip(z_stream *stream) { return inflateInit2(stream, 16 + MAX_WBITS); }
