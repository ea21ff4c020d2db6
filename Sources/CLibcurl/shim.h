// Fixed-argument forms of libcurl's variadic calls: Swift cannot call variadic C functions.
#ifndef CLIBCURL_SHIM_H
#define CLIBCURL_SHIM_H

#include <curl/curl.h>
#include <errno.h>

typedef int (*cistern_socket_callback)(CURL *easy, curl_socket_t socket, int what, void *user, void *socketUser);
typedef int (*cistern_timer_callback)(CURLM *multi, long milliseconds, void *user);
typedef int (*cistern_close_callback)(void *user, curl_socket_t socket);

static inline CURLcode cistern_easy_set_long(CURL *easy, CURLoption option, long value) { return curl_easy_setopt(easy, option, value); }
static inline CURLcode cistern_easy_set_text(CURL *easy, CURLoption option, const char *value) { return curl_easy_setopt(easy, option, value); }
static inline CURLcode cistern_easy_set_pointer(CURL *easy, CURLoption option, void *value) { return curl_easy_setopt(easy, option, value); }
// The version of libcurl. CURLVERSION_NOW is a macro that Swift cannot import.
static inline const char *cistern_curl_version(void) { return curl_version_info(CURLVERSION_NOW)->version; }
// Options common to all requests that Cistern makes for itself: http and https only, no proxy from the environment, no signals, no progress
// meter.
static inline void cistern_easy_prepare(CURL *easy, const char *url) {
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 1L);
}
// Trusts the authorities in this file instead of the system's. The system's directory is disabled, because libcurl would add it.
static inline void cistern_easy_trust(CURL *easy, const char *authorities) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, authorities);
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
}
static inline CURLcode cistern_easy_set_close(CURL *easy, cistern_close_callback value) {
    return curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, value);
}
// Opens a socket, and writes the errno of socket(2) to `error`; 0 if it succeeded. In C, because Swift would otherwise find the types of
// <sys/socket.h> in this module only.
static inline curl_socket_t cistern_open_socket(void *error, curlsocktype purpose, struct curl_sockaddr *address) {
    int number = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    *(int *)error = number < 0 ? errno : 0;
    return number;
}
static inline void cistern_easy_note_socket_error(CURL *easy, int *error) {
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, cistern_open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, error);
}
typedef size_t (*cistern_write_callback)(char *bytes, size_t one, size_t count, void *user);
static inline CURLcode cistern_easy_set_write(CURL *easy, cistern_write_callback value) {
    return curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, value);
}
static inline CURLcode cistern_easy_get_long(CURL *easy, CURLINFO info, long *value) { return curl_easy_getinfo(easy, info, value); }
static inline CURLcode cistern_easy_get_offset(CURL *easy, CURLINFO info, curl_off_t *value) { return curl_easy_getinfo(easy, info, value); }
static inline CURLcode cistern_easy_get_socket(CURL *easy, curl_socket_t *value) {
    return curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, value);
}
static inline CURLMcode cistern_multi_set_pointer(CURLM *multi, CURLMoption option, void *value) { return curl_multi_setopt(multi, option, value); }
static inline CURLMcode cistern_multi_set_socket(CURLM *multi, cistern_socket_callback value) {
    return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, value);
}
static inline CURLMcode cistern_multi_set_timer(CURLM *multi, cistern_timer_callback value) {
    return curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, value);
}
// Calls libcurl for all handles and their sockets. Deprecated because it takes time for each handle; nothing else reaches a handle that has
// neither a socket nor a timer.
static inline CURLMcode cistern_multi_act_on_all(CURLM *multi, int *running) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return curl_multi_socket_all(multi, running);
#pragma GCC diagnostic pop
}
// Error text of a failed transfer: the content of CURLOPT_ERRORBUFFER, which names the cause, or else the text of the code.
static inline const char *cistern_easy_words(CURLcode code, const char *buffer) { return *buffer ? buffer : curl_easy_strerror(code); }
// Result of a finished transfer. CURLMsg holds it in a union.
static inline CURLcode cistern_message_result(CURLMsg *message) { return message->data.result; }
// CURL_GLOBAL_ALL is a macro with a cast.
static inline long cistern_global_all(void) { return CURL_GLOBAL_ALL; }

#endif
