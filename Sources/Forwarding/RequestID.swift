// Request IDs identify a request in the logs of all services that it passes. The client's `X-Request-Id` is used if it is safe to log, else
// one is generated. Request IDs do not select responses, so they are not part of keys.

import HTTPCore

/// Where a request ID is sent, besides the access log.
public enum RequestIDUse: String, Sendable, CaseIterable {
    /// Not sent. X-Request-Id is forwarded like other fields, in both directions.
    case off
    /// To the upstream.
    case send
    /// To the client, instead of the upstream's value.
    case `return`
    case both

    public var isSent: Bool { self == .send || self == .both }
    public var isReturned: Bool { self == .return || self == .both }
}

public enum RequestID {
    private static let longest = 128

    /// The client's request ID: one line of 1 to 128 letters, digits and `._~+/=:-`. nil if there is none.
    public static func own(_ head: RequestHead) -> ArraySlice<UInt8>? {
        guard let value = head.fields.only(.xRequestID), (1...longest).contains(value.count) else { return nil }
        let span = value.span
        for index in span.indices where !isAllowed(span[index]) { return nil }
        return value
    }

    /// Returns a head without its X-Request-Id lines; nil if it has none.
    /// - Parameter head: status line and field lines, each with its line end.
    public static func removing(from head: Span<UInt8>) -> [UInt8]? {
        head.withUnsafeBufferPointer { bytes in
            var others: [UInt8]?
            var (start, copied) = (0, 0)
            while start < bytes.count {
                let end = min(bytes.index(of: 0x0a, from: start, before: bytes.count) + 1, bytes.count)
                if bytes[start] | 0x20 == UInt8(ascii: "x"), isLine(bytes[start..<end]) {
                    others = (others ?? []) + bytes[copied..<start]
                    copied = end
                }
                start = end
            }
            return others.map { $0 + bytes[copied...] }
        }
    }

    private static func isLine(_ line: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        let name = KnownField.xRequestID.name
        guard line.count > name.utf8CodeUnitCount, line[line.startIndex + name.utf8CodeUnitCount] == UInt8(ascii: ":") else { return false }
        return name.withUTF8Buffer { zip(line, $0).allSatisfy { $0.asciiLowercased == $1.asciiLowercased } }
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        if byte.isASCIILetter || byte.isASCIIDigit { return true }
        switch byte {
        case UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="),
            UInt8(ascii: ":"), UInt8(ascii: "-"):
            return true
        default: return false
        }
    }
}

/// Generates unique request IDs. Used by one shard.
public struct RequestIDs: Sendable {
    /// First half of all IDs of this shard in this process.
    private let seed: UInt64
    /// Secret values that scramble the second half of IDs, which would otherwise reveal the number of requests.
    private let secrets: (before: UInt64, after: UInt64) = (.random(in: 0 ... .max), .random(in: 0 ... .max))
    private var made: UInt64 = 0

    public init(seed: UInt64 = .random(in: 0 ... .max)) { self.seed = seed }

    /// Returns the request with a number, if the client sent no request ID.
    public mutating func number(_ head: RequestHead) -> RequestHead {
        guard RequestID.own(head) == nil else { return head }
        made += 1
        return head.numbered(made)
    }

    /// Returns the request with a number, and the field line with its request ID.
    public mutating func name(_ head: RequestHead) -> (head: RequestHead, line: [UInt8]) {
        if let own = RequestID.own(head) { return (head, Self.line(own)) }
        made += 1
        return (head.numbered(made), text(of: made, isLine: true))
    }

    /// Returns only the field line, for a request that needs no number.
    public mutating func line(of head: RequestHead) -> [UInt8] {
        if let own = RequestID.own(head) { return Self.line(own) }
        made += 1
        return text(of: made, isLine: true)
    }

    /// Returns the ID of a request that was processed by `number` or `name`; nil if the request has neither a number nor an ID.
    public func name(of head: RequestHead) -> [UInt8]? {
        head.number == 0 ? RequestID.own(head).map { Array($0) } : text(of: head.number, isLine: false)
    }

    private static let lineStart: StaticString = "X-Request-Id: "
    private static let lineBytes = 16

    private static func line(_ own: ArraySlice<UInt8>) -> [UInt8] {
        Array(atMost: lineBytes + own.count) { line in
            line.put(lineStart)
            line.put(own.span)
            line.put("\r\n")
        }
    }

    private func text(of number: UInt64, isLine: Bool) -> [UInt8] {
        let mixed = SplitMix64.number(at: number &+ secrets.before) ^ secrets.after
        let digits = (
            HexDigits.of(UInt32(seed >> 32)), HexDigits.of(UInt32(truncatingIfNeeded: seed)), HexDigits.of(UInt32(mixed >> 32)),
            HexDigits.of(UInt32(truncatingIfNeeded: mixed))
        )
        return Array(atMost: Self.lineBytes + Self.digitCount) { text in
            if isLine { text.put(Self.lineStart) }
            withUnsafeBytes(of: digits) { text.put($0.baseAddress?.assumingMemoryBound(to: UInt8.self), count: Self.digitCount) }
            if isLine { text.put("\r\n") }
        }
    }

    private static let digitCount = 32
}
