// Runs the C code of Cistern and the C libraries behind it, and prints results that are equal on every architecture. See arm64_test.sh.
#define _GNU_SOURCE
#include "CHash/shim.h"
#include "CHiredis/shim.h"
#include "CLibcurl/shim.h"
#include "CNGHTTP2/shim.h"
#include "CSystem.h"
#include "CTLS.h"
#include "CYAML/shim.h"
#include "CZlib/shim.h"
#include "CZstd/shim.h"
#include "CBrotli/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void show(const char *name, long long value) { printf("%s: %lld\n", name, value); }

static void show_bytes(const char *name, const unsigned char *bytes, size_t count) {
    printf("%s: ", name);
    for (size_t index = 0; index < count; index++) printf("%02x", bytes[index]);
    printf("\n");
}

static void test_system(void) {
    int sockets[2], received[CSYSTEM_DESCRIPTORS], count = 0;
    char bytes[4] = {0};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets)) abort();
    show("quiet", csystem_is_quiet(sockets[1]));
    show("sent", csystem_send(sockets[0], "abc", 3));
    show("received", csystem_receive(sockets[1], bytes, sizeof bytes));
    printf("bytes: %s\n", bytes);
    show("descriptors sent", csystem_send_descriptors(sockets[0], "d", 1, sockets, 2));
    show("descriptors received", csystem_receive_descriptors(sockets[1], bytes, 1, received, &count));
    show("descriptors", count);
    uid_t user = 99;
    show("peer user", csystem_peer_user(sockets[0], &user) == 0 && user == getuid());
    show("is TCP", csystem_is_tcp(sockets[0]));
    show("has cores", csystem_allowed_cores() > 0);

    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    csystem_epoll_control(epoll, EPOLL_CTL_ADD, sockets[1], EPOLLIN, 0x1122334455667788);
    csystem_send(sockets[0], "e", 1);
    show("events", epoll_wait(epoll, &event, 1, 1000));
    show("event data", (long long)event.data.u64);
}

// A page of a truncated file reads as zeros instead of ending the process.
static void test_mapping(void) {
    size_t size = 4 * (size_t)sysconf(_SC_PAGESIZE);
    int file = csystem_memory_file("test");
    show("allocated", csystem_allocate(file, (off_t)size));
    unsigned char *mapping = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(mapping, 7, size);
    show("in memory", csystem_is_in_memory(mapping, size));
    csystem_bring_in(mapping, size);
    csystem_guard_mapping(mapping, size);
    if (ftruncate(file, 0)) abort();
    show("byte of a truncated file", *(volatile unsigned char *)(mapping + size - 1));
    csystem_forget_mapping(mapping);
    csystem_release_program_pages();
    csystem_return_large_memory();
    csystem_return_free_memory();
}

static void test_hashes(void) {
    show("libsodium", chash_start() >= 0);
    unsigned char text[1000], hash[32], key[32] = {1, 2, 3}, nonce[24] = {4}, sealed[1016];
    for (size_t index = 0; index < sizeof text; index++) text[index] = (unsigned char)(index * 31);
    crypto_generichash(hash, sizeof hash, text, sizeof text, key, sizeof key);
    show_bytes("BLAKE2b", hash, sizeof hash);
    unsigned long long count = 0;
    crypto_aead_xchacha20poly1305_ietf_encrypt(sealed, &count, text, sizeof text, 0, 0, 0, nonce, key);
    crypto_generichash(hash, sizeof hash, sealed, count, 0, 0);
    show_bytes("XChaCha20-Poly1305", hash, sizeof hash);
    sealed[500] ^= 1;
    show("forged", crypto_aead_xchacha20poly1305_ietf_decrypt(text, &count, 0, sealed, sizeof sealed, 0, 0, nonce, key));
    for (size_t length = 1; length < sizeof text; length *= 5) {
        printf("XXH3 %zu: %016llx\n", length, (unsigned long long)XXH3_64bits(text, length));
    }
}

static int print_bytes(void *owner, int type, const char *bytes, size_t count) {
    (void)owner;
    printf("reply %d: %.*s\n", type, (int)count, bytes);
    return 1;
}
static int print_list(void *owner, size_t count) {
    (void)owner;
    show("list", (long long)count);
    return 1;
}
static int print_integer(void *owner, long long number) {
    (void)owner;
    show("integer", number);
    return 1;
}
static int print_nothing(void *owner) {
    (void)owner;
    return printf("nothing\n") > 0;
}

static void test_parsers(void) {
    chiredis_parts parts = {0, print_bytes, print_list, print_integer, print_nothing};
    redisReader *reader = chiredis_reader_make(&parts);
    const char reply[] = "*4\r\n:42\r\n$-1\r\n+OK\r\n$3\r\nabc\r\n";
    void *token = 0;
    for (size_t index = 0; index < sizeof reply - 1; index++) {
        redisReaderFeed(reader, reply + index, 1);
        show("type", chiredis_type(reader));
        if (redisReaderGetReply(reader, &token) != REDIS_OK) abort();
    }
    redisReaderFree(reader);

    yaml_parser_t parser;
    yaml_event_t event;
    const char text[] = "upstream: {url: \"https://api.example.com\"}\nlisten: [a, b]\n";
    yaml_parser_initialize(&parser);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, sizeof text - 1);
    for (int type = 0; type != YAML_STREAM_END_EVENT;) {
        if (!yaml_parser_parse(&parser, &event)) abort();
        type = event.type;
        printf("YAML event %d %s\n", type, type == YAML_SCALAR_EVENT ? (char *)event.data.scalar.value : "");
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
}

static void test_codings(void) {
    unsigned char text[5000], packed[6000], plain[5000];
    for (size_t index = 0; index < sizeof text; index++) text[index] = (unsigned char)"{\"users\":[1,2]}"[index % 15];
    z_stream stream = {.next_in = text, .avail_in = sizeof text, .next_out = packed, .avail_out = sizeof packed};
    cistern_deflate_init_gzip(&stream, 6, 15, 8);
    show("deflate", deflate(&stream, Z_FINISH));
    z_stream reverse = {.next_in = packed, .avail_in = (unsigned)stream.total_out, .next_out = plain, .avail_out = sizeof plain};
    cistern_inflate_init_gzip(&reverse);
    show("inflate", inflate(&reverse, Z_FINISH) == Z_STREAM_END && !memcmp(text, plain, sizeof text));
    size_t size = ZSTD_compress(packed, sizeof packed, text, sizeof text, 3);
    show("zstd", ZSTD_decompress(plain, sizeof plain, packed, size) == sizeof text && !memcmp(text, plain, sizeof text));
    size = sizeof packed;
    show("brotli", BrotliEncoderCompress(5, 18, BROTLI_MODE_TEXT, sizeof text, text, &size, packed));
    size_t count = sizeof plain;
    int is_whole = BrotliDecoderDecompress(size, packed, &count, plain) == BROTLI_DECODER_RESULT_SUCCESS;
    show("brotli back", is_whole && !memcmp(text, plain, sizeof text));

    nghttp2_hd_deflater *deflater;
    nghttp2_hd_deflate_new(&deflater, 4096);
    nghttp2_nv field = {(uint8_t *)"cache-status", (uint8_t *)"cistern; hit", 12, 12, NGHTTP2_NV_FLAG_NONE};
    ssize_t length = nghttp2_hd_deflate_hd(deflater, packed, sizeof packed, &field, 1);
    show_bytes("HPACK", packed, (size_t)length);
    nghttp2_hd_deflate_del(deflater);
    show("libcurl", cistern_curl_version() != 0);
}

// A handshake of Cistern's TLS client with its TLS server in one process, and content in both directions.
static void test_TLS(void) {
    char *certificate, *key;
    size_t certificate_count, key_count;
    show("self-signed", ctls_make_self_signed("DNS:localhost", 2, &certificate, &certificate_count, &key, &key_count));
    char path[] = "/tmp/cistern-arm64-XXXXXX";
    int file = mkstemp(path);
    if (write(file, certificate, certificate_count) < 0) abort();
    ctls_bytes chain = {certificate, certificate_count}, secret = {key, key_count};
    ctls_server_settings settings = {.certificates = chain, .key = secret, .session_seconds = 60};
    ctls_server *server = ctls_server_make(&settings);
    ctls_tickets *tickets = ctls_tickets_make();
    ctls_context *context = ctls_context_make("localhost", path, 0, 0, 1, CTLS_HTTP1_2);
    unlink(path);
    for (int round = 0; round < 2; round++) {
        int sockets[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets)) abort();
        ctls_connection *client = ctls_open(context, sockets[0]), *accepted = ctls_accept(server, tickets, sockets[1]);
        int here = -1, there = -1;
        for (int step = 0; step < 50 && (here || there); step++) {
            if (here) here = ctls_handshake(client);
            if (there) there = ctls_accept_step(accepted);
            if (there == CTLS_WANTS_CHOICE) there = ctls_accept_choose(accepted, server, CTLS_ASKS_NOT, (ctls_bytes){"l", 1}, 1);
        }
        show("handshake of the client", here);
        show("handshake of the server", there);
        printf("%s, name %s\n", ctls_version(accepted), ctls_accept_name(accepted));
        show("HTTP/2", ctls_is_http2(client));
        show("resumed", ctls_is_resumed(client));
        char bytes[16] = {0};
        show("written", ctls_write(client, "hello", 5));
        show("read", ctls_read(accepted, bytes, sizeof bytes));
        printf("content: %s\n", bytes);
        show("written back", ctls_write(accepted, "bye", 3));
        show("read back", ctls_read(client, bytes, sizeof bytes));
        ctls_close(client);
        ctls_close(accepted);
        close(sockets[0]);
        close(sockets[1]);
    }
    csignature_key *signer = csignature_edwards_make();
    unsigned char public[CSIGNATURE_ED25519_KEY_BYTES], signature[CSIGNATURE_ED25519_BYTES];
    csignature_edwards_public(signer, public);
    csignature_edwards_sign(signer, "message", 7, signature);
    csignature_key *verifier = csignature_edwards_key(CSIGNATURE_ED25519, public, sizeof public);
    show("signature", csignature_verify(verifier, CSIGNATURE_EDDSA, 0, (const uint8_t *)"message", 7, signature, sizeof signature));
    signature[0] ^= 1;
    show("forged signature", csignature_verify(verifier, CSIGNATURE_EDDSA, 0, (const uint8_t *)"message", 7, signature, sizeof signature));
}

int main(void) {
    test_system();
    test_mapping();
    test_hashes();
    test_parsers();
    test_codings();
    test_TLS();
    return 0;
}
