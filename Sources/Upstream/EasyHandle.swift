// Owns one libcurl easy handle. What is the same for every request is set once; handles go back to a pool and are used again.

import CLibcurl
import HTTPCore

/// Not copyable, so it is cleaned up exactly once.
struct EasyHandle: ~Copyable {
    let pointer: UnsafeMutableRawPointer
    /// What goes before each target.
    private let prefix: [UInt8]
    /// The target of OPTIONS for the whole server, which is no path.
    private let wholeServer: [UInt8]
    private var lines = HeaderLines()
    /// Whether the last request had content or another method than GET: then those options must be taken back.
    private var isPlain = true
    private var usesNewConnection = false

    /// Whether a handle may ask again. Before 8.1.0 libcurl kept a pointer to the last field of a handle's last answer, which was freed: an
    /// answer that begins with a folded line was written there (curl issue 11101).
    static let mayBeReused = cistern_curl_version() >= 0x08_0100

    /// One read of an answer. libcurl's default of 16 KB costs a call each; from 64 KB on glibc tidies its whole heap when libcurl frees
    /// the buffer, after each transfer.
    private static let bufferBytes = 48 * 1024

    init?(_ settings: UpstreamSettings) {
        guard let pointer = curl_easy_init() else { return nil }
        self.pointer = pointer
        prefix = Array((settings.isAskedThroughProxy ? settings.origin : "").utf8) + Array(settings.basePath.utf8)
        wholeServer = Array((settings.isAskedThroughProxy ? settings.origin : "*").utf8)
        setConnection(settings)
        let long = { (option: CURLoption, value: Int) in _ = cistern_easy_set_long(pointer, option, value) }
        long(CURLOPT_NOSIGNAL, 1)
        long(CURLOPT_NOPROGRESS, 1)
        long(CURLOPT_PATH_AS_IS, 1)
        long(CURLOPT_BUFFERSIZE, Self.bufferBytes)
        long(CURLOPT_HTTP_CONTENT_DECODING, 0)
        // Chunks are taken off by our own decoder, which is strict; libcurl still finds the end by them.
        long(CURLOPT_HTTP_TRANSFER_DECODING, 0)
        long(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        // A name server that does not answer: libcurl must not wait for its resolving thread when we end the transfer.
        long(CURLOPT_QUICK_EXIT, 1)
        // The event loop's timers bound every phase; libcurl's own default of 300 s must not come first.
        long(CURLOPT_CONNECTTIMEOUT_MS, 86_400_000)
        long(CURLOPT_MAXAGE_CONN, settings.idleSeconds)
    }

    deinit {
        curl_easy_cleanup(pointer)
    }

    private func setConnection(_ settings: UpstreamSettings) {
        let text = { [pointer] (option: CURLoption, value: String?) in
            if let value { _ = cistern_easy_set_text(pointer, option, value) }
        }
        let long = { [pointer] (option: CURLoption, value: Int) in _ = cistern_easy_set_long(pointer, option, value) }
        text(CURLOPT_URL, settings.origin + "/")
        text(CURLOPT_PROTOCOLS_STR, "http,https")
        text(CURLOPT_UNIX_SOCKET_PATH, settings.unixSocket)
        // Never the one of the environment: an empty text switches it off.
        text(CURLOPT_PROXY, settings.proxy ?? "")
        text(CURLOPT_CAINFO, settings.caFile)
        text(CURLOPT_SSLCERT, settings.clientCertificate)
        text(CURLOPT_SSLKEY, settings.clientKey)
        long(CURLOPT_SSL_VERIFYPEER, settings.verify ? 1 : 0)
        long(CURLOPT_SSL_VERIFYHOST, settings.verify ? 2 : 0)
        switch settings.http2 {
        case .auto: long(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS)
        case .off: long(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1)
        case .priorKnowledge: long(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE)
        }
    }

    /// Everything that differs from request to request.
    mutating func set(_ request: UpstreamRequest) {
        var target = request.target == [UInt8(ascii: "*")] ? wholeServer : prefix + request.target
        target.append(0)
        target.withUnsafeBufferPointer { bytes in
            bytes.withMemoryRebound(to: CChar.self) { _ = cistern_easy_set_text(pointer, CURLOPT_REQUEST_TARGET, $0.baseAddress) }
        }
        setMethod(request)
        if request.usesNewConnection != usesNewConnection {
            usesNewConnection = request.usesNewConnection
            cistern_easy_set_long(pointer, CURLOPT_FRESH_CONNECT, usesNewConnection ? 1 : 0)
        }
        cistern_easy_set_pointer(pointer, CURLOPT_HTTPHEADER, lines.fill(request))
    }

    private mutating func setMethod(_ request: UpstreamRequest) {
        let plain = request.method == .get && request.content == .none
        if plain && isPlain { return }
        isPlain = plain
        cistern_easy_set_long(pointer, CURLOPT_NOBODY, 0)
        cistern_easy_set_long(pointer, CURLOPT_UPLOAD, 0)
        cistern_easy_set_long(pointer, CURLOPT_HTTPGET, 1)
        cistern_easy_set_text(pointer, CURLOPT_CUSTOMREQUEST, nil)
        guard !plain else { return }
        if request.method == .head { cistern_easy_set_long(pointer, CURLOPT_NOBODY, 1) }
        switch request.content {
        case .none, .length(0): break
        case .length(let count):
            cistern_easy_set_long(pointer, CURLOPT_UPLOAD, 1)
            cistern_easy_set_offset(pointer, CURLOPT_INFILESIZE_LARGE, curl_off_t(count))
        case .chunked:
            cistern_easy_set_long(pointer, CURLOPT_UPLOAD, 1)
            cistern_easy_set_offset(pointer, CURLOPT_INFILESIZE_LARGE, -1)
        }
        guard request.method != .head else { return }
        var method = request.method.bytes.map { CChar(bitPattern: $0) }
        method.append(0)
        cistern_easy_set_text(pointer, CURLOPT_CUSTOMREQUEST, method)
    }

    /// Whether the connection of the request just done is still there to be used again.
    var isConnectionKept: Bool {
        var socket: curl_socket_t = -1
        return cistern_easy_get_socket(pointer, &socket) == CURLE_OK && socket >= 0
    }
}
