// For any bytes in place of a ClientHello, the handshake neither traps nor waits forever. The result does not depend on how the bytes are
// split, and the server name is valid.

import CTLS
import Downstream
import Glibc

enum HandshakeProperty {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        let whole = try outcome(of: [bytes])
        for split in splits(of: bytes.count) {
            let parts = try outcome(of: [Array(bytes[..<split]), Array(bytes[split...])])
            try expect(parts == whole, "bytes split at \(split) come to \(parts), and whole to \(whole)")
        }
    }

    private struct Outcome: Equatable {
        var name: String?
        var failure: Int32 = 0
    }

    /// Result of a handshake that receives these pieces in order, and then the end.
    private static func outcome(of pieces: [[UInt8]]) throws(Violation) -> Outcome {
        var ends: [Int32] = [-1, -1]
        try expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0, &ends) == 0, "no sockets")
        defer { for end in ends { close(end) } }
        guard let door, let connection = ctls_accept(door.server, door.tickets, ends[0]) else { throw Violation(description: "no TLS") }
        defer { ctls_close(connection) }
        var outcome = Outcome()
        for (place, piece) in pieces.enumerated() {
            try expect(write(ends[1], piece, piece.count) == piece.count, "the socket is full")
            if place == pieces.count - 1 { shutdown(ends[1], Int32(SHUT_WR)) }
            guard try step(connection, &outcome) == Int32(CTLS_WANTS_READ) else { break }
        }
        outcome.failure = ctls_accept_failure(connection)
        return outcome
    }

    /// Continues the handshake with the available bytes.
    private static func step(_ connection: OpaquePointer, _ outcome: inout Outcome) throws(Violation) -> Int32 {
        let step = ctls_accept_step(connection)
        guard step == Int32(CTLS_WANTS_CHOICE) else { return step }
        try expect(outcome.name == nil, "a name was requested twice")
        let name = String(cString: ctls_accept_name(connection))
        try expect(name.utf8.count <= 255 && !name.utf8.contains { (0x41...0x5a).contains($0) }, "the name \(name)")
        outcome.name = name
        let listener = Array("127.0.0.1:8443".utf8)
        let isChosen = listener.withUnsafeBytes {
            ctls_accept_choose(
                connection, door?.server, Int32(CTLS_ASKS_OPTIONALLY), ctls_bytes(bytes: $0.baseAddress, count: $0.count), 1)
        }
        try expect(isChosen != 0, "no choice")
        return ctls_accept_step(connection)
    }

    private static let door = Door()
}

/// `@unchecked Sendable` because OpenSSL's contexts are for all threads, and nothing here changes them.
private final class Door: @unchecked Sendable {
    let server: OpaquePointer
    let tickets: OpaquePointer

    init?() {
        guard let tickets = ctls_tickets_make(), let pem = CertificateFacts.makeSelfSigned(names: "DNS:localhost", days: 1)
        else { return nil }
        let server = pem.withUnsafeBytes { pem in
            let bytes = ctls_bytes(bytes: pem.baseAddress, count: pem.count)
            var settings = ctls_server_settings(certificates: bytes, key: bytes, client_authorities: bytes, session_seconds: 60)
            return ctls_server_make(&settings)
        }
        guard let server else { return nil }
        (self.server, self.tickets) = (server, tickets)
    }
}
