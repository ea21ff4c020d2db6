// Parameters of a test client's handshake, and its result.

import CTestTLS

package struct TLSOffer {
    /// Server name (SNI); nil for none.
    package var name: String? = "cistern.test"
    package var pair: TestCertificates.Pair?
    package var protocols = ["http/1.1"]
    /// Whether TLS 1.2 is the highest version.
    package var isOld = false
    package var suites: String?
    package var session: TLSSession?
    /// The trusted authority; nil for none.
    package var authority: String? = SharedCertificates.authority

    package init() {}

    fileprivate func connect(_ descriptor: Int32) -> OpaquePointer? {
        var list: [UInt8] = []
        for one in protocols { list += [UInt8(one.utf8.count)] + Array(one.utf8) }
        return Self.with([name, authority, pair?.certificate, pair?.key, suites]) { texts in
            list.withUnsafeBufferPointer { list in
                var offer = test_tls_offer()
                (offer.name, offer.authority, offer.certificate, offer.key) = (texts[0], texts[1], texts[2], texts[3])
                (offer.protocols, offer.protocols_count) = (list.baseAddress, UInt32(list.count))
                (offer.is_12, offer.suites, offer.session) = (isOld ? 1 : 0, texts[4], session?.pointer)
                return test_tls_connect(&offer, descriptor)
            }
        }
    }

    private static func with<R>(_ texts: [String?], _ body: ([UnsafePointer<CChar>?]) -> R) -> R {
        let copies = texts.map { text in text.map { Array($0.utf8CString) } }
        func next(_ index: Int, _ pointers: [UnsafePointer<CChar>?]) -> R {
            guard index < copies.count else { return body(pointers) }
            guard let copy = copies[index] else { return next(index + 1, pointers + [nil]) }
            return copy.withUnsafeBufferPointer { next(index + 1, pointers + [$0.baseAddress]) }
        }
        return next(0, [])
    }
}

/// A session that a later connection can resume.
package final class TLSSession {
    fileprivate let pointer: UnsafeMutableRawPointer

    fileprivate init(_ pointer: UnsafeMutableRawPointer) { self.pointer = pointer }

    deinit { test_tls_free_session(pointer) }

    /// The session ticket.
    package var ticket: [UInt8] {
        var bytes: UnsafePointer<UInt8>?
        let count = test_tls_session_ticket(pointer, &bytes)
        return Array(UnsafeBufferPointer(start: bytes, count: count))
    }
}

/// The client's side of a connection.
package final class TLSClientSide {
    private let pointer: OpaquePointer

    /// nil if the handshake fails.
    init?(_ offer: TLSOffer, _ descriptor: Int32) {
        guard let pointer = offer.connect(descriptor) else { return nil }
        self.pointer = pointer
    }

    deinit { test_tls_free(pointer) }

    package var isResumed: Bool { test_tls_is_resumed(pointer) != 0 }
    package var version: String { String(cString: test_tls_version(pointer)) }
    /// Whether the server has sent close_notify.
    package var isClosed: Bool { test_tls_is_closed(pointer) != 0 }
    /// Available after something was received.
    package var session: TLSSession? { test_tls_session(pointer).map(TLSSession.init) }

    package var chosenProtocol: String {
        var name: UnsafePointer<UInt8>?
        let count = test_tls_protocol(pointer, &name)
        return String(decoding: UnsafeBufferPointer(start: name, count: count), as: UTF8.self)
    }

    /// SHA-256 of the server's certificate.
    package var fingerprint: [UInt8] {
        var hash = [UInt8](repeating: 0, count: 32)
        return test_tls_fingerprint(pointer, &hash) != 0 ? hash : []
    }

    /// As recv: 0 at the end, negative on error.
    func receive(_ space: inout [UInt8]) -> Int { test_tls_receive(pointer, &space, space.count) }

    func hasInput(within milliseconds: Int32) -> Bool { test_tls_has_input(pointer, milliseconds) != 0 }

    func send(_ bytes: [UInt8]) {
        guard !bytes.isEmpty, test_tls_write(pointer, bytes, bytes.count) != 0 else { return }
        _ = test_tls_flush(pointer)
    }

    /// Sends the bytes and close_notify together.
    package func sendLast(_ bytes: [UInt8]) {
        guard test_tls_write(pointer, bytes, bytes.count) != 0 else { return }
        finishSending()
    }

    package func sendKeyUpdate() {
        guard test_tls_write_key_update(pointer) != 0 else { return }
        _ = test_tls_flush(pointer)
    }

    func finishSending() {
        test_tls_write_close_notify(pointer)
        _ = test_tls_flush(pointer)
    }
}
