// Replies of Redis and Valkey (RESP 2), read by hiredis. Nothing else of it is used: sockets and commands are ours.
#include <stdlib.h>
#include <hiredis/read.h>

// What was fed and is not used up.
static inline const char *chiredis_unread(const redisReader *reader) { return reader->buf + reader->pos; }
static inline size_t chiredis_unread_count(const redisReader *reader) { return reader->len - reader->pos; }
// What is being read, where its first byte is used up: REDIS_REPLY_…; else -1.
static inline int chiredis_type(const redisReader *reader) { return reader->ridx < 0 ? -1 : reader->rstack[reader->ridx].type; }
