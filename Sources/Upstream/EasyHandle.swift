// Owns one libcurl easy handle that is configured to establish one connection.

import CLibcurl
import Reactor

/// Not copyable, so the handle is cleaned up exactly once.
struct EasyHandle: ~Copyable {
    let pointer: UnsafeMutableRawPointer

    /// - Parameter address: the address to connect to instead of the settings' host; nil to let libcurl resolve the host.
    init?(_ settings: UpstreamSettings, _ address: NamedAddress?) {
        guard let pointer = curl_easy_init() else { return nil }
        self.pointer = pointer
        let text = { (option: CURLoption, value: String?) in
            if let value { _ = cistern_easy_set_text(pointer, option, value) }
        }
        let long = { (option: CURLoption, value: Int) in _ = cistern_easy_set_long(pointer, option, value) }
        long(CURLOPT_CONNECT_ONLY, 1)
        // TLS is not done by libcurl, so the scheme has no effect. The port is always given.
        text(CURLOPT_URL, "http://\(address?.text ?? settings.hostInURL):\(settings.port)/")
        text(CURLOPT_PROTOCOLS_STR, "http")
        text(CURLOPT_UNIX_SOCKET_PATH, settings.unixSocket)
        // An empty text disables the proxy of the environment.
        text(CURLOPT_PROXY, settings.proxy ?? "")
        // A forward proxy tunnels TLS. Cleartext requests are sent to it with the whole URI (RFC 9112 §3.2.2).
        long(CURLOPT_HTTPPROXYTUNNEL, settings.isTLS ? 1 : 0)
        long(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        long(CURLOPT_NOSIGNAL, 1)
        long(CURLOPT_NOPROGRESS, 1)
        // If the name server does not respond, ending an attempt must not wait for libcurl's resolver thread.
        long(CURLOPT_QUICK_EXIT, 1)
        // The attempt has its own timer, which must precede libcurl's. Half of this time is libcurl's limit for each address of a forward
        // proxy except the last.
        long(CURLOPT_CONNECTTIMEOUT_MS, settings.proxy == nil ? 86_400_000 : Int(settings.connectTimeout.wholeMilliseconds) + 100)
    }

    deinit {
        curl_easy_cleanup(pointer)
    }
}
