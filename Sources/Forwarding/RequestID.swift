// By which name a request is found again in the logs of all that it goes through: the client's own `X-Request-Id` where that can stand in any log,
// else one that is made. It says nothing of what is asked for, so no key has it in it.

import HTTPCore

/// Who is told a request's name beside our own log.
public enum RequestIDUse: String, Sendable, CaseIterable {
    /// Nobody: the field passes as any other does, either way.
    case off
    /// The upstream.
    case send
    /// The client, in the place of what the upstream says.
    case `return`
    case both

    public var isSent: Bool { self == .send || self == .both }
    public var isReturned: Bool { self == .return || self == .both }
}

public enum RequestID {
    private static let longest = 128

    /// The client's: one line, of 1 to 128 letters, digits and `._~+/=:-`; nil where there is none such.
    public static func own(_ head: RequestHead) -> ArraySlice<UInt8>? {
        guard let value = head.fields.only(.xRequestID), (1...longest).contains(value.count) else { return nil }
        let span = value.span
        for index in span.indices where !isAllowed(span[index]) { return nil }
        return value
    }

    /// A head without the lines that name a request; nil where it has none.
    /// - Parameter head: status line and field lines, each with its end.
    public static func removing(from head: UnsafeRawBufferPointer) -> [UInt8]? {
        head.withMemoryRebound(to: UInt8.self) { bytes in
            var others: [UInt8]?
            var (start, copied) = (0, 0)
            while start < bytes.count {
                let end = min(bytes.place(of: 0x0a, from: start, before: bytes.count) + 1, bytes.count)
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

/// Makes names, no two alike. Belongs to one shard.
public struct RequestIDs: Sendable {
    /// Of this shard of this process: the first half of all its names.
    private let seed: UInt64
    /// Told to nobody: without them a name's second half would tell how many there were before it.
    private let secrets: (before: UInt64, after: UInt64)
    private var made: UInt64 = 0

    public init(
        seed: UInt64 = .random(in: 0 ... .max), secrets: (UInt64, UInt64) = (.random(in: 0 ... .max), .random(in: 0 ... .max))
    ) {
        self.seed = seed
        self.secrets = secrets
    }

    /// The request, with a number where it has no name of its own.
    public mutating func number(_ head: RequestHead) -> RequestHead {
        guard RequestID.own(head) == nil else { return head }
        made += 1
        return head.numbered(made)
    }

    /// The same, and a field line with its end that says its name.
    public mutating func name(_ head: RequestHead) -> (head: RequestHead, line: [UInt8]) {
        if let own = RequestID.own(head) { return (head, Self.line(own)) }
        made += 1
        return (head.numbered(made), text(of: made, isLine: true))
    }

    /// The line alone, of a request that is told from others by nothing else.
    public mutating func line(of head: RequestHead) -> [UInt8] {
        if let own = RequestID.own(head) { return Self.line(own) }
        made += 1
        return text(of: made, isLine: true)
    }

    /// The name of a request that went through `number` or `name`; nil of another that has none of its own.
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
