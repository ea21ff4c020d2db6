#include <string.h>
#include <zlib.h>

// inflateInit2 is a macro. 16 + MAX_WBITS: gzip only (RFC 1952).
static inline int cistern_inflate_init_gzip(z_stream *stream) { return inflateInit2(stream, 16 + MAX_WBITS); }
