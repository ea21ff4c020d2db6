// Parses replies of Redis and Valkey (RESP 2) with hiredis 0.14 or later. Sockets and commands are implemented elsewhere. The parser builds
// no objects: it reports each part of a reply to callbacks, from the outside in.
#ifndef CHIREDIS_SHIM_H
#define CHIREDIS_SHIM_H

#include <hiredis/hiredis.h>
#include <hiredis/read.h>

// Callbacks for the parts of a reply. Each returns 0 to stop reading the reply.
typedef struct {
    void *owner;
    // `type`: REDIS_REPLY_STRING, _STATUS or _ERROR.
    int (*bytes)(void *owner, int type, const char *bytes, size_t count);
    // `count` elements follow.
    int (*list)(void *owner, size_t count);
    int (*integer)(void *owner, long long number);
    int (*nothing)(void *owner);
} chiredis_parts;

// Placeholder for an object: hiredis requires a non-null pointer and does not dereference it.
#define CHIREDIS_TOKEN(takes) ((takes) ? (void *)1 : (void *)0)

static inline void *chiredis_bytes(const redisReadTask *task, char *bytes, size_t count) {
    const chiredis_parts *parts = task->privdata;
    // Later versions also support RESP 3, which is never requested.
    int is_known = task->type == REDIS_REPLY_STRING || task->type == REDIS_REPLY_STATUS || task->type == REDIS_REPLY_ERROR;
    return CHIREDIS_TOKEN(is_known && parts->bytes(parts->owner, task->type, bytes, count));
}

#if HIREDIS_MAJOR >= 1
static inline void *chiredis_list(const redisReadTask *task, size_t count) {
#else
static inline void *chiredis_list(const redisReadTask *task, int count) {
#endif
    const chiredis_parts *parts = task->privdata;
    return CHIREDIS_TOKEN(task->type == REDIS_REPLY_ARRAY && parts->list(parts->owner, (size_t)count));
}

static inline void *chiredis_integer(const redisReadTask *task, long long number) {
    const chiredis_parts *parts = task->privdata;
    return CHIREDIS_TOKEN(parts->integer(parts->owner, number));
}

static inline void *chiredis_nothing(const redisReadTask *task) {
    const chiredis_parts *parts = task->privdata;
    return CHIREDIS_TOKEN(parts->nothing(parts->owner));
}

#if HIREDIS_MAJOR >= 1
static inline void *chiredis_double(const redisReadTask *task, double number, char *bytes, size_t count) {
    (void)task, (void)number, (void)bytes, (void)count;
    return 0;
}

static inline void *chiredis_bool(const redisReadTask *task, int is_true) {
    (void)task, (void)is_true;
    return 0;
}
#endif

static inline void chiredis_free(void *token) { (void)token; }

// `parts` must outlive the reader. Null if memory is exhausted.
static inline redisReader *chiredis_reader_make(chiredis_parts *parts) {
    static redisReplyObjectFunctions functions = {
        .createString = chiredis_bytes,
        .createArray = chiredis_list,
        .createInteger = chiredis_integer,
#if HIREDIS_MAJOR >= 1
        .createDouble = chiredis_double,
        .createBool = chiredis_bool,
#endif
        .createNil = chiredis_nothing,
        .freeObject = chiredis_free,
    };
    redisReader *reader = redisReaderCreateWithFunctions(&functions);
    if (reader) reader->privdata = parts;
    return reader;
}

// Bytes that were fed and are not consumed yet.
static inline const char *chiredis_unread(const redisReader *reader) { return reader->buf + reader->pos; }
static inline size_t chiredis_unread_count(const redisReader *reader) { return reader->len - reader->pos; }

// Type of the value being read (REDIS_REPLY_…) once its first byte is consumed; otherwise -1.
static inline int chiredis_type(const redisReader *reader) {
#if HIREDIS_MAJOR >= 1
    return reader->ridx < 0 ? -1 : reader->task[reader->ridx]->type;
#else
    return reader->ridx < 0 ? -1 : reader->rstack[reader->ridx].type;
#endif
}

#endif
