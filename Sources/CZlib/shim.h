#include <string.h>
#include <zlib.h>

// deflateInit2 and inflateInit2 are macros. 16 + MAX_WBITS: gzip only (RFC 1952); -MAX_WBITS: what stands within (RFC 1951).
static inline int cistern_deflate_init_gzip(z_stream *stream, int level) {
    return deflateInit2(stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
}
static inline int cistern_inflate_init_raw(z_stream *stream) { return inflateInit2(stream, -MAX_WBITS); }
static inline int cistern_inflate_init_gzip(z_stream *stream) { return inflateInit2(stream, 16 + MAX_WBITS); }
