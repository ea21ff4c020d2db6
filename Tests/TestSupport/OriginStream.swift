// The origin's side of a connection, with or without TLS. Blocking. Scripts control which bytes are sent together.

import CTestTLS
import Glibc

/// TLS context of an origin. `@unchecked Sendable` because several threads may use an OpenSSL context after its creation.
package final class OriginTLS: @unchecked Sendable {
    private let pointer: OpaquePointer

    /// - Parameters:
    ///   - isOld: whether TLS 1.2 is the highest version.
    ///   - choosesHTTP2: whether HTTP/2 is selected if offered.
    package init(_ pair: TestCertificates.Pair, isOld: Bool = false, choosesHTTP2: Bool = false) {
        guard let pointer = test_tls_context_make(pair.certificate, pair.key, isOld ? 1 : 0) else {
            preconditionFailure("the origin cannot use its certificate")
        }
        // A client that leaves during a handshake must not end the tests: OpenSSL writes without MSG_NOSIGNAL.
        signal(SIGPIPE, SIG_IGN)
        if choosesHTTP2 { test_tls_context_choose_http2(pointer) }
        self.pointer = pointer
    }

    deinit { test_tls_context_free(pointer) }

    /// A TLS problem that the origin causes for its client.
    package enum Demand: Sendable {
        /// Clients must present a certificate of this authority.
        case clientCertificate(String)
        /// The origin rejects every offered ALPN protocol.
        case otherProtocol
        /// TLS 1.1 is the highest version.
        case ancientTLS
    }

    /// Must be called before the first connection.
    package convenience init(_ pair: TestCertificates.Pair, isOld: Bool = false, choosesHTTP2: Bool = false, _ demand: Demand) {
        self.init(pair, isOld: isOld, choosesHTTP2: choosesHTTP2)
        switch demand {
        case .clientCertificate(let authority): test_tls_context_demand_client(pointer, authority)
        case .otherProtocol: test_tls_context_refuse_protocols(pointer)
        case .ancientTLS: test_tls_context_be_ancient(pointer)
        }
    }

    /// nil if the handshake fails.
    func accept(_ descriptor: Int32) -> OriginStream? {
        test_tls_accept(pointer, descriptor).map { OriginStream(descriptor, $0) }
    }
}

final class OriginStream {
    let descriptor: Int32
    private let tls: OpaquePointer?
    /// Buffer for received bytes.
    private var piece = [UInt8](repeating: 0, count: 65_536)

    /// The caller owns the descriptor.
    init(_ descriptor: Int32, _ tls: OpaquePointer? = nil) {
        self.descriptor = descriptor
        self.tls = tls
    }

    deinit { if let tls { test_tls_free(tls) } }

    var isResumed: Bool { tls.map { test_tls_is_resumed($0) != 0 } ?? false }

    /// Received bytes; empty at the end.
    func receive() -> [UInt8] {
        let count = tls.map { test_tls_read($0, &piece, piece.count) } ?? recv(descriptor, &piece, piece.count, 0)
        return Array(piece.prefix(max(0, count)))
    }

    /// Sends all records together.
    func send(_ records: [[UInt8]]) {
        guard let tls else { return sendPlainly(records.reduce(into: []) { $0 += $1 }) }
        for record in records where !record.isEmpty { _ = test_tls_write(tls, record, record.count) }
        _ = test_tls_flush(tls)
    }

    private func sendPlainly(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress! + sent, $0.count - sent, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            sent += count
        }
    }

    func awaitInput() {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        _ = poll(&waiting, 1, 20_000)
    }

    func awaitDelivery() {
        var unsent: Int32 = 0
        while ioctl(descriptor, UInt(TIOCOUTQ), &unsent) == 0, unsent > 0 { _ = poll(nil, 0, 1) }
    }

    func sendTicket() {
        guard let tls, test_tls_write_ticket(tls) == 1 else { return }
        _ = test_tls_flush(tls)
    }

    func sendKeyUpdate() {
        guard let tls, test_tls_write_key_update(tls) == 1 else { return }
        _ = test_tls_flush(tls)
    }

    func sendCloseNotify() {
        guard let tls else { return }
        test_tls_write_close_notify(tls)
        _ = test_tls_flush(tls)
    }
}

/// An authority and a server certificate for 127.0.0.1, shared by all plays of a run. `@unchecked Sendable` because it does not change
/// until the process ends.
package final class SharedCertificates: @unchecked Sendable {
    private static let shared = SharedCertificates()

    private var certificates: TestCertificates?
    private let tls: OriginTLS
    private let old: OriginTLS
    private let http2: OriginTLS
    private let proxy: TestCertificates.Pair
    private let client: TestCertificates.Pair

    private init() {
        guard let certificates = try? TestCertificates(), let pair = try? certificates.make("server"),
            let proxy = try? certificates.make("proxy", hosts: "DNS:cistern.test"), let client = try? certificates.make("client")
        else {
            preconditionFailure("openssl is missing: make test installs it")
        }
        (self.proxy, self.client) = (proxy, client)
        self.certificates = certificates
        tls = OriginTLS(pair)
        old = OriginTLS(pair, isOld: true)
        http2 = OriginTLS(pair, choosesHTTP2: true)
        // Deletes the files.
        atexit { SharedCertificates.shared.certificates = nil }
    }

    /// The authority that clients must trust.
    package static var authority: String { shared.certificates?.authority ?? "" }
    /// Certificate of the proxy for cistern.test.
    package static var proxy: TestCertificates.Pair { shared.proxy }
    package static var client: TestCertificates.Pair { shared.client }
    /// TLS contexts with TLS 1.3, and with at most TLS 1.2.
    package static var tls: OriginTLS { shared.tls }
    package static var oldTLS: OriginTLS { shared.old }
    /// Selects HTTP/2 if offered.
    package static var http2TLS: OriginTLS { shared.http2 }
}
