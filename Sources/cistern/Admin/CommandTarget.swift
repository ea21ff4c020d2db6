// Where a command's request goes: an address in clear, or a URL through TLS. One request, one connection, blocking; what goes over it is the
// command's own.

import CLibcurl
import Descriptors
import Downstream
import Glibc

enum CommandTarget: Sendable, CustomStringConvertible {
    case clear(ListenAddress)
    case secured(SecuredAddress)

    /// - Parameter text: what `ListenAddress` takes, a path, or a URL of http or https. nil: none of these.
    init?(_ text: String, _ files: SecuredAddress.Files = SecuredAddress.Files()) {
        if text.lowercased().hasPrefix("https://") {
            guard let address = SecuredAddress(text, files) else { return nil }
            self = .secured(address)
        } else {
            guard let listener = ListenerSettings(text.hasPrefix("/") ? "unix:" + text : text) else { return nil }
            self = .clear(listener.address)
        }
    }

    var description: String {
        switch self {
        case .clear(let address): address.description
        case .secured(let address): address.url
        }
    }

    /// For a Host field.
    var authority: String {
        switch self {
        case .clear(.unix): "localhost"
        case .clear(let address): address.description
        case .secured(let address): String(address.url.dropFirst("https://".count))
        }
    }

    /// The bytes of the response, read to the connection's end.
    /// - Throws: why there are none, in words.
    func exchange(_ bytes: [UInt8], patienceSeconds: Int) throws(AdminFailure) -> [UInt8] {
        switch self {
        case .clear(let address):
            errno = 0
            if let response = PlainHTTP.exchange(bytes, with: address, patienceSeconds: patienceSeconds) { return response }
            throw AdminFailure(SystemError.words())
        case .secured(let address): return try address.exchange(bytes, patienceSeconds: patienceSeconds)
        }
    }
}

/// An https URL, and the files that TLS with it needs. libcurl makes the connection and checks the certificate; HTTP is ours.
struct SecuredAddress: Sendable {
    struct Files: Sendable {
        /// PEM: whose certificates are trusted; empty for the system's.
        var authorities = ""
        /// PEM: what is shown where the other side asks for a certificate; empty for none.
        var certificate = ""
        /// PEM; empty where it is in `certificate`.
        var key = ""
    }

    /// Without a slash at its end.
    let url: String
    let files: Files

    /// nil where more stands behind the authority.
    init?(_ text: String, _ files: Files) {
        var rest = text.dropFirst("https://".count)
        if rest.hasSuffix("/") { rest.removeLast() }
        guard !rest.isEmpty, rest.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "@") }) else {
            return nil
        }
        (url, self.files) = ("https://" + rest, files)
    }

    /// Kept by libcurl: initialised once, and thread-safe since.
    private static let isReady = curl_global_init(cistern_global_all()) == CURLE_OK

    func exchange(_ bytes: [UInt8], patienceSeconds: Int) throws(AdminFailure) -> [UInt8] {
        guard Self.isReady, let handle = curl_easy_init() else { throw AdminFailure("libcurl cannot be used") }
        defer { curl_easy_cleanup(handle) }
        setUp(handle, patienceSeconds)
        try check(curl_easy_perform(handle))
        var socket: curl_socket_t = -1
        try check(cistern_easy_get_socket(handle, &socket))
        let deadline = time(nil) + patienceSeconds
        try send(bytes, handle, socket, deadline)
        return try receive(handle, socket, deadline)
    }

    private func setUp(_ handle: UnsafeMutableRawPointer, _ patienceSeconds: Int) {
        cistern_easy_prepare(handle, url)
        _ = cistern_easy_set_long(handle, CURLOPT_CONNECT_ONLY, 1)
        // What is offered in the handshake.
        _ = cistern_easy_set_long(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1)
        _ = cistern_easy_set_long(handle, CURLOPT_TIMEOUT_MS, patienceSeconds * 1_000)
        if !files.authorities.isEmpty { cistern_easy_trust(handle, files.authorities) }
        guard !files.certificate.isEmpty else { return }
        _ = cistern_easy_set_text(handle, CURLOPT_SSLCERT, files.certificate)
        _ = cistern_easy_set_text(handle, CURLOPT_SSLKEY, files.key.isEmpty ? files.certificate : files.key)
    }

    private func check(_ result: CURLcode) throws(AdminFailure) {
        guard result != CURLE_OK else { return }
        throw AdminFailure(String(cString: curl_easy_strerror(result)))
    }

    private func send(_ bytes: [UInt8], _ handle: UnsafeMutableRawPointer, _ socket: Int32, _ deadline: Int) throws(AdminFailure) {
        var sent = 0
        while sent < bytes.count {
            var count = 0
            let result = bytes.withUnsafeBytes { curl_easy_send(handle, $0.baseAddress! + sent, $0.count - sent, &count) }
            if result == CURLE_AGAIN { try wait(for: POLLOUT, socket, deadline) } else { try check(result) }
            sent += count
        }
    }

    private func receive(_ handle: UnsafeMutableRawPointer, _ socket: Int32, _ deadline: Int) throws(AdminFailure) -> [UInt8] {
        var response: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            var count = 0
            let result = curl_easy_recv(handle, &piece, piece.count, &count)
            if result == CURLE_AGAIN {
                try wait(for: POLLIN, socket, deadline)
                continue
            }
            try check(result)
            if count == 0 { return response }
            response += piece[..<count]
        }
    }

    private func wait(for event: Int32, _ socket: Int32, _ deadline: Int) throws(AdminFailure) {
        var waiting = pollfd(fd: socket, events: Int16(event), revents: 0)
        let left = max(0, deadline - time(nil))
        guard poll(&waiting, 1, Int32(clamping: left * 1_000)) != 0 else { throw AdminFailure("nothing came for too long") }
    }
}
