// The upstream of all benchmarks: a JSON API over plain HTTP/1.1, and over TLS with HTTP/1.1 or HTTP/2.
//
//     origin PORT TLS_PORT CERTIFICATE KEY [http2]
//
// A target is [/rNUMBER]/KIND[.BYTES][/ANYTHING]: a route's or an API's part, which is ignored; the kind of response; the content's length,
// otherwise 1,024. The content depends on the target.
//
//     same    no validators and no lifetime
//     tagged  an ETag; 304 if the request has If-None-Match
//     new     other data in each response
//     pass    no-store
//     others  a lifetime of ten hours
//
// As with real APIs, X-Request-Id, Server-Timing and RateLimit-Remaining differ in each response. All responses of a kind have an equal
// length.
#include "server.h"

enum { HEAD = 4096, FIRST = 16384, TEMPLATES = 16, CONTENT_LIMIT = 16 << 20 };

// Contents by length. The places of the target's number and of the version are overwritten in each response.
static struct { size_t bytes; char *text; } templates[TEMPLATES];
static const char beginning[] = "{\"id\":\"0000000000\",\"version\":\"0000000000\",\"items\":[";
enum { ID_AT = 7, VERSION_AT = 30, DIGITS = 10, PATCHED = VERSION_AT + DIGITS };

// What one target's response consists of. HTTP/2 keeps it until its stream ends.
typedef struct {
    enum { SAME, TAGGED, NEW, PASS, FRESH } kind;
    int is_conditional;
    unsigned id, version;
    size_t bytes, sent;
    const char *text;
} answer;

// Bytes of an incomplete request, by descriptor.
static char heads[LIMIT][HEAD];
static char output[HEAD + FIRST];
static unsigned number;

static const char *content_of(size_t bytes) {
    int slot = 0;
    while (slot < TEMPLATES && templates[slot].bytes && templates[slot].bytes != bytes) slot++;
    if (slot == TEMPLATES || bytes < 128 || bytes > CONTENT_LIMIT) fail("content length");
    if (templates[slot].bytes) return templates[slot].text;
    char *text = malloc(bytes + 256), *at = text + sprintf(text, "%s", beginning);
    for (unsigned item = 0; (size_t)(at - text) + 160 < bytes; item++)
        at += sprintf(at, "%s{\"user\":%u,\"title\":\"sunt aut facere %u\",\"score\":%u.5,\"done\":%s}", item ? "," : "", item % 7,
                      item * 7919 % 100003, item * 31 % 997, item % 3 ? "true" : "false");
    at += sprintf(at, "],\"rest\":\"");
    while ((size_t)(at - text) < bytes - 2) *at++ = 'x';
    memcpy(at, "\"}", 2);
    templates[slot].bytes = bytes;
    return templates[slot].text = text;
}

static void digits(char *at, unsigned value) {
    for (int place = DIGITS; place-- > 0; value /= 10) at[place] = (char)('0' + value % 10);
}

// Copies a part of the content. The first part contains all bytes that differ between responses.
static void copy_content(char *to, const answer *one, size_t from, size_t count) {
    memcpy(to, one->text + from, count);
    if (from > 0) return;
    digits(to + ID_AT, one->id);
    digits(to + VERSION_AT, one->kind == NEW ? one->version : 1);
}

static void understand(answer *one, const char *target, size_t length) {
    const char *end = target + length, *at = target + 1;
    one->id = 5381;
    for (const char *letter = target; letter < end; letter++) one->id = one->id * 33 ^ (unsigned char)*letter;
    if (at + 1 < end && *at == 'r' && at[1] >= '0' && at[1] <= '9') {
        while (at < end && *at != '/') at++;
        at++;
    }
    size_t name = 0;
    while (at + name < end && at[name] != '/' && at[name] != '.') name++;
    static const char *const names[] = {"same", "tagged", "new", "pass"};
    one->kind = FRESH;
    for (int kind = SAME; kind < FRESH; kind++)
        if (name == strlen(names[kind]) && !memcmp(at, names[kind], name)) one->kind = kind;
    one->bytes = at + name < end && at[name] == '.' ? strtoul(at + name + 1, 0, 10) : 1024;
    one->text = content_of(one->bytes);
    one->version = ++number;
}

static const char *date(void) {
    static char text[32];
    static time_t last;
    time_t now = time(0);
    if (now != last) strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&now));
    last = now;
    return text;
}

// Texts of the fields that differ.
static char request_id[24], timing[24], remaining[8], etag[24], length_text[24];

static void make_fields(const answer *one) {
    unsigned random = one->version * 2654435761u;
    sprintf(request_id, "%08x%08x", random, one->version);
    sprintf(timing, "app;dur=%02u.%03u", 10 + random % 80, random / 80 % 1000);
    sprintf(remaining, "%u", 1000 + random % 9000);
    sprintf(etag, "\"v1-%010u\"", one->id);
    sprintf(length_text, "%zu", one->bytes);
}

static const char *cache_control(const answer *one) {
    return one->kind == PASS ? "no-store" : one->kind == FRESH ? "max-age=36000" : 0;
}

static int is_not_modified(const answer *one) { return one->kind == TAGGED && one->is_conditional; }

// HTTP/1.1

static int respond(connection *client, const answer *one) {
    make_fields(one);
    int at = sprintf(output, "HTTP/1.1 %s\r\nDate: %s\r\nServer: origin\r\n", is_not_modified(one) ? "304 Not Modified" : "200 OK", date());
    at += sprintf(output + at, "X-Request-Id: %s\r\nServer-Timing: %s\r\nRateLimit-Remaining: %s\r\n", request_id, timing, remaining);
    if (cache_control(one)) at += sprintf(output + at, "Cache-Control: %s\r\n", cache_control(one));
    if (one->kind == TAGGED) at += sprintf(output + at, "ETag: %s\r\n", etag);
    if (is_not_modified(one)) return at += sprintf(output + at, "\r\n"), put(client, output, (size_t)at);
    at += sprintf(output + at, "Content-Type: application/json\r\nContent-Length: %s\r\n\r\n", length_text);
    size_t first = one->bytes < FIRST ? one->bytes : FIRST;
    copy_content(output + at, one, 0, first);
    return put(client, output, (size_t)at + first) && put(client, one->text + first, one->bytes - first);
}

static int take(connection *client, size_t count) {
    char *text = heads[client->descriptor], *end;
    if (client->have + count >= HEAD) return 0;
    memcpy(text + client->have, input, count);
    text[client->have += (unsigned)count] = 0;
    while ((end = strstr(text, "\r\n\r\n"))) {
        *end = 0;
        char *target = strchr(text, ' ');
        if (!target) return 0;
        answer one = {.is_conditional = strcasestr(text, "\r\nif-none-match:") != 0};
        understand(&one, target + 1, strcspn(target + 1, " "));
        if (!respond(client, &one)) return 0;
        client->have -= (unsigned)(end + 4 - text);
        memmove(text, end + 4, client->have + 1);
    }
    return 1;
}

// HTTP/2

static int began(nghttp2_session *session, const nghttp2_frame *frame, void *own) {
    (void)own;
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, calloc(1, sizeof(answer)));
}

static int header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length, const uint8_t *value,
                  size_t length, uint8_t flags, void *own) {
    (void)flags, (void)own;
    answer *one = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (name_length == 5 && !memcmp(name, ":path", 5)) understand(one, (const char *)value, length);
    if (name_length == 13 && !memcmp(name, "if-none-match", 13)) one->is_conditional = 1;
    return 0;
}

static ssize_t offer(nghttp2_session *session, int32_t stream, uint8_t *space, size_t limit, uint32_t *flags,
                     nghttp2_data_source *source, void *own) {
    (void)session, (void)stream, (void)own;
    answer *one = source->ptr;
    size_t left = one->bytes - one->sent, count = left < limit ? left : limit;
    copy_content((char *)space, one, one->sent, count);
    one->sent += count;
    *flags |= count == left ? NGHTTP2_DATA_FLAG_EOF : 0;
    return (ssize_t)count;
}

// nghttp2 copies the value.
static void add(nghttp2_nv *fields, size_t *count, const char *name, const char *value) {
    fields[*count] = field(name, value, strlen(value));
    fields[(*count)++].flags = 0;
}

static int received(nghttp2_session *session, const nghttp2_frame *frame, void *own) {
    (void)own;
    if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    answer *one = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    make_fields(one);
    nghttp2_nv fields[12];
    size_t count = 0;
    add(fields, &count, ":status", is_not_modified(one) ? "304" : "200");
    add(fields, &count, "date", date());
    add(fields, &count, "server", "origin");
    add(fields, &count, "x-request-id", request_id);
    add(fields, &count, "server-timing", timing);
    add(fields, &count, "ratelimit-remaining", remaining);
    if (cache_control(one)) add(fields, &count, "cache-control", cache_control(one));
    if (one->kind == TAGGED) add(fields, &count, "etag", etag);
    if (is_not_modified(one)) return nghttp2_submit_response(session, frame->hd.stream_id, fields, count, 0);
    add(fields, &count, "content-type", "application/json");
    add(fields, &count, "content-length", length_text);
    nghttp2_data_provider provider = {.source.ptr = one, .read_callback = offer};
    return nghttp2_submit_response(session, frame->hd.stream_id, fields, count, &provider);
}

static int ended(nghttp2_session *session, int32_t stream, uint32_t code, void *own) {
    (void)code, (void)own;
    free(nghttp2_session_get_stream_user_data(session, stream));
    return 0;
}

static void set_up_http2(void) {
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, began);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, received);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, ended);
    nghttp2_option_new(&options);
    nghttp2_option_set_no_closed_streams(options, 1);
}

int main(int count, char **arguments) {
    if (count < 5) return fprintf(stderr, "origin PORT TLS_PORT CERTIFICATE KEY [http2]\n"), 1;
    set_up_tls(arguments[3], arguments[4], count > 5 ? &options : 0);
    set_up_http2();
    serve(arguments[1], arguments[2]);
}
