// A minimal HTTPS server as the lower bound of a response's cost over TLS: epoll, OpenSSL, and nghttp2 for clients that choose HTTP/2.
//
//     floor_tls PORT TLS_PORT RESPONSE CERTIFICATE KEY
//
// RESPONSE is a file with the head and content of the response, byte for byte; HTTP/2 sends equal fields and content. PORT serves plain
// HTTP, for comparison. Requests are not parsed. A request is the content of one read (wrk sends each in one piece), or a stream that the
// client has ended.
#include "server.h"

enum { FIELDS = 64 };

static char response[ROOM], *content;
static size_t response_bytes, content_bytes;
static nghttp2_nv fields[FIELDS];
static size_t field_count;

static int take(connection *one, size_t count) {
    (void)count;
    return put(one, response, response_bytes);
}

static ssize_t offer(nghttp2_session *session, int32_t stream, uint8_t *space, size_t limit, uint32_t *flags,
                     nghttp2_data_source *source, void *own) {
    (void)space, (void)source, (void)own;
    size_t sent = (size_t)nghttp2_session_get_stream_user_data(session, stream), left = content_bytes - sent;
    size_t count = left < limit ? left : limit;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY | (count == left ? NGHTTP2_DATA_FLAG_EOF : 0);
    return (ssize_t)count;
}

static int send_content(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t count,
                        nghttp2_data_source *source, void *own) {
    (void)source;
    int32_t stream = frame->hd.stream_id;
    size_t sent = (size_t)nghttp2_session_get_stream_user_data(session, stream);
    if (!gather(own, head, FRAME_HEAD) || !gather(own, content + sent, count)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(session, stream, (void *)(sent + count));
    return 0;
}

static int received(nghttp2_session *session, const nghttp2_frame *frame, void *own) {
    (void)own;
    if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    nghttp2_data_provider provider = {.read_callback = offer};
    return nghttp2_submit_response(session, frame->hd.stream_id, fields, field_count, &provider);
}

static void set_up_http2(void) {
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, received);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_content);
    nghttp2_option_new(&options);
    nghttp2_option_set_no_closed_streams(options, 1);
}

static void read_response(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || !(response_bytes = fread(response, 1, ROOM, file))) fail(path);
    fclose(file);
    static char lines[ROOM];
    memcpy(lines, response, response_bytes);
    char *end = strstr(lines, "\r\n\r\n"), *line = strstr(lines, "\r\n");
    content = response + (end - lines) + 4;
    content_bytes = response_bytes - (size_t)(end - lines) - 4;
    fields[field_count++] = field(":status", "200", 3);
    while (line < end && field_count < FIELDS) {
        char *name = line + 2, *colon = strstr(name, ": "), *next = strstr(name, "\r\n");
        for (char *letter = name; letter < colon; letter++) *letter |= *letter >= 'A' && *letter <= 'Z' ? 0x20 : 0;
        *colon = 0;
        fields[field_count++] = field(name, colon + 2, (size_t)(next - colon - 2));
        line = next;
    }
}

int main(int count, char **arguments) {
    if (count != 6) return fprintf(stderr, "floor_tls PORT TLS_PORT RESPONSE CERTIFICATE KEY\n"), 1;
    read_response(arguments[3]);
    set_up_tls(arguments[4], arguments[5], &options);
    set_up_http2();
    serve(arguments[1], arguments[2]);
}
