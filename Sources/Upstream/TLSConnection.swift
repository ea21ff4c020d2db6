// TLS with the upstream: OpenSSL objects with one owner each. The context of all connections is recreated when one of its files has
// changed, so that a renewed certificate is used without a restart.

import CTLS
import Glibc

/// Trusted authorities, client certificate, and sessions to resume. Belongs to one event loop.
final class TLSContext {
    fileprivate let pointer: OpaquePointer
    private let files: [FileIdentity?]

    /// - Parameter http2: the HTTP versions that are offered.
    /// - Returns: nil if one of the files cannot be used.
    init?(_ settings: UpstreamSettings, http2: HTTP2Use) {
        files = Self.identities(settings)
        guard
            let pointer = ctls_context_make(
                settings.host, settings.caFile, settings.clientCertificate, settings.clientKey, settings.verify ? 1 : 0,
                http2.offered)
        else { return nil }
        self.pointer = pointer
    }

    deinit { ctls_context_free(pointer) }

    func isUpToDate(_ settings: UpstreamSettings) -> Bool { files == Self.identities(settings) }

    private static func identities(_ settings: UpstreamSettings) -> [FileIdentity?] {
        [settings.caFile, settings.clientCertificate, settings.clientKey].map { $0.flatMap { FileIdentity($0) } }
    }
}

extension HTTP2Use {
    fileprivate var offered: Int32 {
        switch self {
        case .off: Int32(CTLS_HTTP1)
        case .auto: Int32(CTLS_HTTP1_2)
        case .priorKnowledge: Int32(CTLS_HTTP2)
        }
    }
}

/// Identifies a version of a file.
private struct FileIdentity: Equatable {
    private let numbers: [Int]

    init?(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        numbers = [Int(status.st_ino), Int(status.st_size), Int(status.st_mtim.tv_sec), Int(status.st_mtim.tv_nsec)]
    }
}

/// TLS on one socket, which its caller owns.
final class TLSConnection {
    enum Handshake {
        case agreed, wantsRead, wantsWrite
        case failed(UpstreamError)
    }

    /// nil after it was closed.
    private var pointer: OpaquePointer?
    /// Retained because `pointer` uses it.
    private let context: TLSContext

    init?(_ context: TLSContext, _ descriptor: Int32) {
        guard let pointer = ctls_open(context.pointer, descriptor) else { return nil }
        self.pointer = pointer
        self.context = context
    }

    deinit { close() }

    /// Sends close_notify if possible without waiting. Must be called before the descriptor is closed.
    func close() {
        guard let pointer else { return }
        self.pointer = nil
        ctls_close(pointer)
    }

    func handshake() -> Handshake {
        guard let pointer else { return .failed(.tlsProtocolError) }
        return switch Int(ctls_handshake(pointer)) {
        case 0: .agreed
        case CTLS_WANTS_READ: .wantsRead
        case CTLS_WANTS_WRITE: .wantsWrite
        case CTLS_UNTRUSTED:
            .failed(UpstreamError(.tlsCertificateError, .certificate(Int32(clamping: ctls_verification(pointer)))))
        default: .failed(handshakeError(pointer))
        }
    }

    private func handshakeError(_ pointer: OpaquePointer) -> UpstreamError {
        if let alert { return UpstreamError(.tlsAlertReceived, .alert(alert, isInHandshake: true)) }
        guard ctls_is_cut(pointer) == 0 else {
            let number = ctls_system_error(pointer)
            return UpstreamError(.tlsProtocolError, [0, ECONNRESET, EPIPE].contains(number) ? .cutInHandshake : .system(number))
        }
        return UpstreamError(.tlsProtocolError, .tls(ctls_error(pointer)))
    }

    /// The fatal alert that the upstream sent; nil if it sent none.
    private var alert: TLSAlert? {
        pointer.map { ctls_alert($0) }.flatMap { $0 < 0 ? nil : TLSAlert(rawValue: UInt8(clamping: $0)) }
    }

    /// errno of the last failed read or write; 0 if none failed.
    var systemError: Int32 { pointer.map { ctls_system_error($0) } ?? 0 }

    /// TLS error that broke the connection after the handshake; nil if there was none.
    var brokenBy: UpstreamError? {
        guard let pointer else { return nil }
        // In TLS 1.3 the upstream verifies the client certificate after the client's side of the handshake.
        if let alert { return UpstreamError(.tlsAlertReceived, .alert(alert, isInHandshake: false)) }
        return ctls_is_cut(pointer) == 0 ? UpstreamError(.tlsProtocolError, .tls(ctls_error(pointer))) : nil
    }

    /// Names, issuer and validity of a refused certificate, without control characters; nil if none was refused.
    var refusedCertificate: String? {
        guard let pointer, let text = ctls_refused_certificate(pointer) else { return nil }
        return String(decoding: String(cString: text).utf8.map { (0x20..<0x7f).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
    }

    /// Whether a session was resumed.
    var isResumed: Bool { pointer.map { ctls_is_resumed($0) != 0 } ?? false }

    /// Whether the peer has selected HTTP/2.
    var isHTTP2: Bool { pointer.map { ctls_is_http2($0) != 0 } ?? false }

    /// Whether the connection is open and no content has arrived. Processes session tickets and key updates.
    var isQuiet: Bool { pointer.map { ctls_is_quiet($0) != 0 } ?? false }

    /// Number of bytes passed to the kernel so far.
    var written: Int { pointer.map { Int(truncatingIfNeeded: ctls_written($0)) } ?? 0 }

    func receive(into space: UnsafeMutableRawBufferPointer) -> ByteStream.Received {
        guard let pointer else { return .ended(isClean: false) }
        let count = ctls_read(pointer, space.baseAddress, space.count)
        switch count {
        case CTLS_WANTS_READ: return .nothing
        case CTLS_WANTS_WRITE: return .wantsWrite
        case CTLS_CLOSED: return .ended(isClean: true)
        default: return count > 0 ? .bytes(count) : .ended(isClean: false)
        }
    }

    func send(_ bytes: UnsafeRawBufferPointer) -> ByteStream.Sent {
        guard let pointer else { return .broken }
        let count = ctls_write(pointer, bytes.baseAddress, bytes.count)
        switch count {
        case CTLS_WANTS_READ: return .wantsRead
        case CTLS_WANTS_WRITE: return .wantsWrite
        default: return count > 0 ? .bytes(count) : .broken
        }
    }
}
