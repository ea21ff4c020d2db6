// The bytes of one connection, with or without TLS (OpenSSL, through module CTLS).

import CSystem
import CTLS
import Glibc
import Reactor

/// `@unchecked Sendable` because it is created off the loop, passed to the loop once, and then used on the loop only.
final class NodeTLS: @unchecked Sendable {
    fileprivate let pointer: OpaquePointer

    /// nil if a file cannot be used.
    init?(_ settings: EngineTLS, for server: EngineServer) {
        let name: String
        switch server {
        case .host(let host, _): name = settings.name ?? host
        case .unix: name = settings.name ?? "localhost"
        }
        guard let pointer = ctls_context_make(name, settings.authorities, settings.certificate, settings.key, 1, Int32(CTLS_NO_PROTOCOL))
        else {
            return nil
        }
        self.pointer = pointer
    }

    deinit { ctls_context_free(pointer) }
}

final class NodeStream {
    enum Received {
        case bytes(Int)
        case nothing, wantsWrite, ended
    }

    enum Sent {
        case bytes(Int)
        case wantsWrite, wantsRead, broken
    }

    enum Handshake {
        case agreed, wantsRead, wantsWrite
        case failed(EngineFailure)
    }

    private var socket: Descriptor
    var descriptor: Int32 { socket.number }
    private let context: NodeTLS?
    private var tls: OpaquePointer?

    init(_ socket: consuming Descriptor, _ context: NodeTLS?) {
        self.socket = socket
        self.context = context
    }

    deinit { close() }

    var mayHoldBytes: Bool { tls != nil }

    func isConnected() -> Bool? {
        var error: Int32 = 0
        var count = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &count) == 0, error == 0 else { return nil }
        var address = sockaddr_storage()
        count = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let hasPeer = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &count) == 0 }
        }
        return hasPeer
    }

    func secure() -> Handshake {
        guard let context else { return .agreed }
        if tls == nil { tls = ctls_open(context.pointer, descriptor) }
        guard let tls else { return .failed(.unreachable) }
        return switch Int(ctls_handshake(tls)) {
        case 0: .agreed
        case CTLS_WANTS_READ: .wantsRead
        case CTLS_WANTS_WRITE: .wantsWrite
        case CTLS_UNTRUSTED: .failed(.untrusted)
        default: .failed(.noTLS)
        }
    }

    func receive(into space: UnsafeMutableRawBufferPointer) -> Received {
        if let tls {
            let count = ctls_read(tls, space.baseAddress, space.count)
            switch count {
            case CTLS_WANTS_READ: return .nothing
            case CTLS_WANTS_WRITE: return .wantsWrite
            default: return count > 0 ? .bytes(count) : .ended
            }
        }
        let count = csystem_receive(descriptor, space.baseAddress!, space.count)
        if count > 0 { return .bytes(count) }
        return count < 0 && (errno == EAGAIN || errno == EINTR) ? .nothing : .ended
    }

    /// - Parameter bytes: at least one byte.
    func send(_ bytes: UnsafeRawBufferPointer) -> Sent {
        if let tls {
            let count = ctls_write(tls, bytes.baseAddress, bytes.count)
            switch count {
            case CTLS_WANTS_READ: return .wantsRead
            case CTLS_WANTS_WRITE: return .wantsWrite
            default: return count > 0 ? .bytes(count) : .broken
            }
        }
        while true {
            let count = csystem_send(descriptor, bytes.baseAddress!, bytes.count)
            if count >= 0 { return .bytes(count) }
            if errno == EAGAIN { return .wantsWrite }
            if errno != EINTR { return .broken }
        }
    }

    func close() {
        if let tls { ctls_close(tls) }
        tls = nil
        socket.close()
    }
}
