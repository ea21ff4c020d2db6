// The destination of a command's request: an address without TLS, or an https URL. Transfers one request per connection, blocking. Its
// callers define the bytes.

import CLibcurl
import Downstream
import Glibc
import Reactor

enum CommandTarget: Sendable, CustomStringConvertible {
    case clear(ListenAddress)
    case secured(SecuredAddress)

    /// - Parameter text: an address as for `ListenAddress`, a path, or an http or https URL; otherwise the result is nil.
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

    /// Value of the Host field.
    var authority: String {
        switch self {
        case .clear(.unix): "localhost"
        case .clear(let address): address.description
        case .secured(let address): String(address.url.dropFirst("https://".count))
        }
    }

    /// Returns the bytes of the response up to the end of the connection.
    /// - Throws: a sentence about the failure.
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

/// An https URL with the files for TLS. libcurl connects and verifies the certificate; Cistern's own code speaks HTTP.
struct SecuredAddress: Sendable {
    struct Files: Sendable {
        /// PEM file of trusted authorities; empty for those of the system.
        var authorities = ""
        /// PEM file of the client certificate; empty for none.
        var certificate = ""
        /// PEM file of the private key; empty if `certificate` contains it.
        var key = ""
    }

    /// Without a final slash.
    let url: String
    let files: Files

    /// nil if the URL has more than scheme and authority.
    init?(_ text: String, _ files: Files) {
        var rest = text.dropFirst("https://".count)
        if rest.hasSuffix("/") { rest.removeLast() }
        guard !rest.isEmpty, rest.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "@") }) else {
            return nil
        }
        (url, self.files) = ("https://" + rest, files)
    }

    /// Whether libcurl is initialized. It is thread-safe afterwards.
    private static let isReady = curl_global_init(cistern_global_all()) == CURLE_OK

    func exchange(_ bytes: [UInt8], patienceSeconds: Int) throws(AdminFailure) -> [UInt8] {
        guard Self.isReady, let handle = curl_easy_init() else { throw AdminFailure("libcurl could not be initialized") }
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
        // The protocol offered in the TLS handshake.
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
        guard poll(&waiting, 1, Int32(clamping: left * 1_000)) != 0 else { throw AdminFailure("timeout: no data was received") }
    }
}
