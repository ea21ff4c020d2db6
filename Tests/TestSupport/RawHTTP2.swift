// Hand-made HTTP/2 frames that no library would send, and a reader of received frames.

package enum RawHTTP2 {
    package static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    package enum Kind: UInt8, Sendable {
        case data, headers, priority, reset, settings, push, ping, goAway, window, continuation
        case unknown = 0x3f
    }

    package static let endStream: UInt8 = 1
    package static let endHeaders: UInt8 = 4
    package static let padded: UInt8 = 8
    package static let withPriority: UInt8 = 0x20

    package static func frame(_ kind: Kind, _ flags: UInt8 = 0, _ stream: UInt32 = 0, _ payload: [UInt8] = []) -> [UInt8] {
        let count = payload.count
        return [UInt8(truncatingIfNeeded: count >> 16), UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count)]
            + [kind.rawValue, flags] + number(stream) + payload
    }

    package static func number(_ value: UInt32) -> [UInt8] { [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) } }

    package static func setting(_ name: UInt16, _ value: UInt32) -> [UInt8] { [UInt8(name >> 8), UInt8(name & 0xff)] + number(value) }

    /// Literal field lines, not indexed (RFC 7541 §6.2.2).
    package static func fields(_ lines: [(String, String)]) -> [UInt8] {
        lines.flatMap { name, value in [0x00] + text(name) + text(value) }
    }

    private static func text(_ string: String) -> [UInt8] {
        let bytes = Array(string.utf8)
        guard bytes.count >= 127 else { return [UInt8(bytes.count)] + bytes }
        var (length, rest) = ([UInt8(127)], bytes.count - 127)
        while rest >= 128 {
            length.append(UInt8(rest % 128 + 128))
            rest /= 128
        }
        return length + [UInt8(rest)] + bytes
    }

    package static let usual = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a.test")]

    /// A request's field section in one frame.
    package static func request(
        _ stream: UInt32, _ lines: [(String, String)] = usual, ends: Bool = true, more: UInt8 = 0
    ) -> [UInt8] {
        frame(.headers, endHeaders | (ends ? endStream : 0) | more, stream, fields(lines))
    }
}

/// An HTTP/2 connection to a server, read frame by frame.
package final class RawHTTP2Client {
    package let socket: TestClient
    private var bytes: [UInt8] = []

    package struct Frame {
        package let kind: UInt8
        package let flags: UInt8
        package let stream: UInt32
        package let payload: [UInt8]

        package func number(at offset: Int) -> UInt32 { payload[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) } }
    }

    /// - Parameter settings: payload of the client's first SETTINGS frame.
    package init(port: UInt16, settings: [UInt8] = []) throws {
        socket = try TestClient(port: port)
        socket.send(RawHTTP2.preface + RawHTTP2.frame(.settings, 0, 0, settings))
    }

    package func send(_ bytes: [UInt8]) { socket.send(bytes) }

    /// The next frame; nil at the end of the connection.
    package func next() -> Frame? {
        while true {
            if bytes.count >= 9 {
                let length = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
                if bytes.count >= 9 + length {
                    let stream = bytes[5..<9].reduce(UInt32(0)) { $0 << 8 | UInt32($1) } & 0x7fff_ffff
                    let frame = Frame(kind: bytes[3], flags: bytes[4], stream: stream, payload: Array(bytes[9..<9 + length]))
                    bytes.removeFirst(9 + length)
                    return frame
                }
            }
            guard let more = socket.receive() else { return nil }
            bytes += more
        }
    }

    /// The next frame that matches; nil if the connection ends before.
    package func next(where fits: (Frame) -> Bool) -> Frame? {
        while let frame = next() { if fits(frame) { return frame } }
        return nil
    }
}
