// Owns one libcurl easy handle, set up to make one connection and nothing else.

import CLibcurl

/// Not copyable, so it is cleaned up exactly once.
struct EasyHandle: ~Copyable {
    let pointer: UnsafeMutableRawPointer
    /// libcurl reads it when it begins.
    private let resolved: UnsafeMutablePointer<curl_slist>?

    /// - Parameter addresses: of the name, in the order in which they are tried; those of both families side by side. Empty: it is looked up.
    init?(_ settings: UpstreamSettings, _ addresses: [NamedAddress] = []) {
        guard let pointer = curl_easy_init() else { return nil }
        self.pointer = pointer
        let list = addresses.map(\.text).joined(separator: ",")
        // It takes the place of what libcurl has kept of the name, and is kept no longer than that.
        resolved = list.isEmpty ? nil : curl_slist_append(nil, "+\(settings.host):\(settings.port):\(list)")
        if let resolved { cistern_easy_set_pointer(pointer, CURLOPT_RESOLVE, resolved) }
        let text = { (option: CURLoption, value: String?) in
            if let value { _ = cistern_easy_set_text(pointer, option, value) }
        }
        let long = { (option: CURLoption, value: Int) in _ = cistern_easy_set_long(pointer, option, value) }
        long(CURLOPT_CONNECT_ONLY, 1)
        // TLS is not libcurl's, so the scheme says nothing here but the port, which is always given.
        text(CURLOPT_URL, "http://\(settings.hostInURL):\(settings.port)/")
        text(CURLOPT_PROTOCOLS_STR, "http")
        text(CURLOPT_UNIX_SOCKET_PATH, settings.unixSocket)
        // Never the one of the environment: an empty text switches it off.
        text(CURLOPT_PROXY, settings.proxy ?? "")
        // A forward proxy passes TLS on through a tunnel; what is in clear it is asked for (RFC 9112 §3.2.2).
        long(CURLOPT_HTTPPROXYTUNNEL, settings.isTLS ? 1 : 0)
        long(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        long(CURLOPT_NOSIGNAL, 1)
        long(CURLOPT_NOPROGRESS, 1)
        // A name server that does not respond: libcurl must not wait for its resolving thread when the attempt is ended.
        long(CURLOPT_QUICK_EXIT, 1)
        // The attempt has a timer of its own; libcurl's default of 300 s must not come first.
        long(CURLOPT_CONNECTTIMEOUT_MS, 86_400_000)
    }

    deinit {
        curl_easy_cleanup(pointer)
        curl_slist_free_all(resolved)
    }
}
