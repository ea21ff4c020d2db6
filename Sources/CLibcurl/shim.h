// Fixed-argument forms of libcurl's variadic calls: Swift cannot call variadic C functions.
#ifndef CLIBCURL_SHIM_H
#define CLIBCURL_SHIM_H

#include <curl/curl.h>

typedef size_t (*cistern_data_callback)(char *bytes, size_t size, size_t count, void *user);
typedef int (*cistern_prereq_callback)(void *user, char *primary, char *local, int primaryPort, int localPort);
typedef int (*cistern_socket_callback)(CURL *easy, curl_socket_t socket, int what, void *user, void *socketUser);
typedef int (*cistern_timer_callback)(CURLM *multi, long milliseconds, void *user);
typedef int (*cistern_close_callback)(void *user, curl_socket_t socket);
typedef int (*cistern_resolver_callback)(void *resolver, void *reserved, void *user);
typedef int (*cistern_socket_options_callback)(void *user, curl_socket_t socket, curlsocktype purpose);

static inline CURLcode cistern_easy_set_long(CURL *easy, CURLoption option, long value) { return curl_easy_setopt(easy, option, value); }
static inline CURLcode cistern_easy_set_offset(CURL *easy, CURLoption option, curl_off_t value) { return curl_easy_setopt(easy, option, value); }
static inline CURLcode cistern_easy_set_text(CURL *easy, CURLoption option, const char *value) { return curl_easy_setopt(easy, option, value); }
static inline CURLcode cistern_easy_set_pointer(CURL *easy, CURLoption option, void *value) { return curl_easy_setopt(easy, option, value); }
static inline CURLcode cistern_easy_set_data(CURL *easy, CURLoption option, cistern_data_callback value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode cistern_easy_set_prereq(CURL *easy, cistern_prereq_callback value) {
    return curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, value);
}
static inline CURLcode cistern_easy_set_close(CURL *easy, cistern_close_callback value) {
    return curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, value);
}
static inline CURLcode cistern_easy_set_resolver_start(CURL *easy, cistern_resolver_callback value) {
    return curl_easy_setopt(easy, CURLOPT_RESOLVER_START_FUNCTION, value);
}
static inline CURLcode cistern_easy_set_socket_options(CURL *easy, cistern_socket_options_callback value) {
    return curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, value);
}
static inline CURLcode cistern_easy_get_long(CURL *easy, CURLINFO info, long *value) { return curl_easy_getinfo(easy, info, value); }
static inline CURLcode cistern_easy_get_offset(CURL *easy, CURLINFO info, curl_off_t *value) { return curl_easy_getinfo(easy, info, value); }
static inline CURLcode cistern_easy_get_socket(CURL *easy, curl_socket_t *value) {
    return curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, value);
}
static inline CURLMcode cistern_multi_set_long(CURLM *multi, CURLMoption option, long value) { return curl_multi_setopt(multi, option, value); }
static inline CURLMcode cistern_multi_set_pointer(CURLM *multi, CURLMoption option, void *value) { return curl_multi_setopt(multi, option, value); }
static inline CURLMcode cistern_multi_set_socket(CURLM *multi, cistern_socket_callback value) {
    return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, value);
}
static inline CURLMcode cistern_multi_set_timer(CURLM *multi, cistern_timer_callback value) {
    return curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, value);
}
// The message holds a union.
static inline CURLcode cistern_message_result(CURLMsg *message) { return message->data.result; }
// Macros with casts.
static inline unsigned cistern_curl_version(void) { return curl_version_info(CURLVERSION_NOW)->version_num; }
static inline size_t cistern_write_pause(void) { return CURL_WRITEFUNC_PAUSE; }
static inline size_t cistern_read_pause(void) { return CURL_READFUNC_PAUSE; }
static inline long cistern_global_all(void) { return CURL_GLOBAL_ALL; }

#endif
