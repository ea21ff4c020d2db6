// Parses the head of an HTTP/1.1 request (RFC 9112 §2–§5) from the bytes received so far. Strict, because leniency enables request
// smuggling. The head is copied once; all parts refer to that copy.

public enum RequestParseResult: Sendable {
    /// The head is incomplete.
    case needsMore
    /// A valid head of `consumed` bytes; its content follows as given by `framing`.
    case head(RequestHead, framing: ContentFraming, consumed: Int)
    /// The request is rejected. The rest of the connection cannot be parsed.
    case refused(RequestRejection)
}

/// Remembers how far a partial head was searched for its end, so that a client that sends single bytes does not cause repeated scans.
public struct RequestParser: Sendable {
    private var searched = 0

    public init() {}

    /// Parses the head at the start of `bytes`, which holds everything received since the last request ended.
    public mutating func parse(_ bytes: Span<UInt8>, limits: RequestLimits) -> RequestParseResult {
        // RFC 9112 §2.2: at least one empty line before the request line should be ignored. One is ignored here.
        let start = bytes.count >= 2 && bytes[0] == 0x0d && bytes[1] == 0x0a ? 2 : 0
        if let whole = parseWhole(bytes, from: start, limits: limits) { return whole }
        guard let end = findEnd(bytes, from: start) else {
            if let rejection = Self.early(bytes, start: start, limits: limits) { return .refused(rejection) }
            return .needsMore
        }
        searched = 0
        guard end - start <= limits.headBytes else { return .refused(Self.tooLarge) }
        do throws(RequestRejection) {
            let (head, framing) = try Self.read(bytes, start..<end, limits)
            return .head(head, framing: framing, consumed: end)
        } catch {
            return .refused(error)
        }
    }

    /// Fast path: nearly every request arrives alone and complete, so its end need not be searched first. An earlier empty line is not a
    /// valid field line, so two heads are never parsed as one.
    private func parseWhole(_ bytes: Span<UInt8>, from start: Int, limits: RequestLimits) -> RequestParseResult? {
        let count = bytes.count
        guard searched == 0, count - start > 4, count - start <= limits.headBytes, bytes[count - 1] == 0x0a, bytes[count - 2] == 0x0d,
            bytes[count - 3] == 0x0a, bytes[count - 4] == 0x0d, let (head, framing) = try? Self.read(bytes, start..<count, limits)
        else { return nil }
        return .head(head, framing: framing, consumed: count)
    }

    private static func read(
        _ bytes: Span<UInt8>, _ range: Range<Int>, _ limits: RequestLimits
    ) throws(RequestRejection) -> (RequestHead, ContentFraming) {
        try bytes.extracting(range).withUnsafeBufferPointer { buffer throws(RequestRejection) in
            var reading = HeadReading(head: buffer, limits: limits)
            return try reading.read()
        }
    }

    /// Parses a head from another protocol version that was converted to HTTP/1.1 form. All versions are thereby validated by one set of
    /// rules.
    public static func read(
        written head: Span<UInt8>, version: HTTPVersion, limits: RequestLimits
    ) throws(RequestRejection) -> (RequestHead, ContentFraming) {
        guard head.count <= limits.headBytes else { throw tooLarge }
        return try head.withUnsafeBufferPointer { buffer throws(RequestRejection) in
            var reading = HeadReading(head: buffer, limits: limits, version: version)
            return try reading.read()
        }
    }

    /// Returns the offset after the empty line that ends the head; nil if it is incomplete.
    private mutating func findEnd(_ bytes: Span<UInt8>, from start: Int) -> Int? {
        let count = bytes.count
        // The end may overlap with bytes that were searched before.
        var index = max(start, searched - 3) + 3
        let found: Int? = bytes.withUnsafeBufferPointer { buffer in
            while index < count {
                index = buffer.index(of: 0x0a, from: index, before: count) + 1
                if index <= count, buffer[index - 2] == 0x0d, buffer[index - 3] == 0x0a, buffer[index - 4] == 0x0d { return index }
            }
            return nil
        }
        if found == nil { searched = count }
        return found
    }

    /// Returns a rejection if an incomplete head is already invalid or too long; nil if more bytes may complete it.
    private static func early(_ bytes: Span<UInt8>, start: Int, limits: RequestLimits) -> RequestRejection? {
        var lineEnd = start
        while lineEnd < bytes.count, bytes[lineEnd] != 0x0a { lineEnd += 1 }
        if lineEnd == bytes.count {
            // A method has at most 32 letters; the target follows.
            if bytes.count - start > limits.targetBytes + 64 { return .targetTooLong }
            if start == 0, bytes.count > 0, !isTokenByte(bytes[0]), bytes[0] != 0x0d {
                return .malformed("This is not an HTTP request.")
            }
        } else if lineEnd == start || bytes[lineEnd - 1] != 0x0d {
            return .malformed("A line of the request ends in a bare line feed.")
        }
        return bytes.count - start > limits.headBytes ? tooLarge : nil
    }

    public static let tooLarge = RequestRejection(.fieldsTooLarge, 431, "The request's header fields are too large.")
}

/// Parses a complete head in one pass. It ends in an empty line, so loops that stop at CR need no bounds check.
private struct HeadReading {
    let head: UnsafeBufferPointer<UInt8>
    let limits: RequestLimits
    var position = 0
    /// Whether the target contains bytes outside of ASCII.
    private var hasRawTarget = false
    /// Version of the connection, if it differs from the version in the head.
    private let spoken: HTTPVersion?

    init(head: UnsafeBufferPointer<UInt8>, limits: RequestLimits, version: HTTPVersion? = nil) {
        self.head = head
        self.limits = limits
        spoken = version
    }

    private func span(_ range: Range<Int>) -> UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(rebasing: head[range]) }

    mutating func read() throws(RequestRejection) -> (RequestHead, ContentFraming) {
        let method = try readMethod()
        let target = try readTarget()
        let version = try readVersion()
        var entries: [Fields.Entry] = []
        entries.reserveCapacity(12)
        var known = FramingFields()
        while !isAtEmptyLine {
            guard entries.count < limits.fieldCount else { throw RequestParser.tooLarge }
            let entry = try readField()
            known.note(entry)
            entries.append(entry)
        }
        let bytes = [UInt8](head)
        let fields = Fields(bytes: bytes, entries: entries)
        let request = RequestHead(method: method, target: try escaped(bytes[target]), version: spoken ?? version, fields: fields)
        if !RequestTarget.isPlain(request) { try RequestTarget.check(request) }
        return (request, known.isFramed ? try RequestFraming.decide(request) : .none)
    }

    private var isAtEmptyLine: Bool { head[position] == 0x0d && head[position + 1] == 0x0a && position + 2 == head.count }

    private mutating func readMethod() throws(RequestRejection) -> Method {
        if head.count > 4, head[0] == 0x47, head[1] == 0x45, head[2] == 0x54, head[3] == 0x20 {
            position = 4
            return .get
        }
        var end = 0
        while end < head.count, isTokenByte(head[end]) { end += 1 }
        guard end > 0, head[end] == 0x20 else { throw .malformed("The request line does not begin with a method and a space.") }
        guard end <= 32 else { throw RequestRejection(.malformed, 501, "The request method is not supported.") }
        position = end + 1
        return Method(Span(_unsafeElements: span(0..<end)))
    }

    private mutating func readTarget() throws(RequestRejection) -> Range<Int> {
        let start = position
        var end = start
        var bits: UInt8 = 0
        while end < head.count, head[end] > 0x20, head[end] != 0x7f, head[end] != 0x23 {
            bits |= head[end]
            end += 1
        }
        hasRawTarget = bits >= 0x80
        guard end - start <= limits.targetBytes else { throw .targetTooLong }
        guard head[end] == 0x20, end > start else {
            throw .malformed(
                head[end] == 0x23
                    ? "The request target contains a fragment (#), which is never sent to a server."
                    : "The request target contains a space or a control character, which must be percent-encoded.")
        }
        position = end + 1
        return start..<end
    }

    /// Returns the target in the form used after the parser: in keys, routes, logs and forwarded requests.
    private func escaped(_ target: ArraySlice<UInt8>) throws(RequestRejection) -> ArraySlice<UInt8> {
        guard hasRawTarget else { return target }
        let escaped = RequestTarget.escaped(target)
        guard escaped.count <= limits.targetBytes else { throw .targetTooLong }
        return escaped
    }

    /// "HTTP/1.1".
    private static let http11: UInt64 = 0x312e_312f_5054_5448

    /// RFC 9113 §3.4: the client sent an HTTP/2 preface without negotiation.
    private static let clearHTTP2 = RequestRejection(
        .version, 505, "This address does not support HTTP/2: enable h2c for it, or use TLS.")

    private mutating func readVersion() throws(RequestRejection) -> HTTPVersion {
        if head.count - position >= 10, EightBytes(at: head.baseAddress! + position).bits == Self.http11, head[position + 8] == 0x0d,
            head[position + 9] == 0x0a
        {
            position += 10
            return .http11
        }
        var end = position
        while head[end] != 0x0d, head[end] != 0x0a { end += 1 }
        let version = Span(_unsafeElements: span(position..<end))
        guard head[end] == 0x0d, head[end + 1] == 0x0a else { throw .malformed("A line of the request ends in a bare line feed.") }
        position = end + 2
        guard version.count == 8, version.extracting(0..<5).equals("HTTP/"), version[5].isASCIIDigit, version[6] == 0x2e,
            version[7].isASCIIDigit
        else { throw .malformed("The request line must be a method, a target and a version, with one space between them.") }
        guard version[5] == 0x31 else {
            if version[5] == 0x32, span(0..<4).elementsEqual("PRI ".utf8) { throw Self.clearHTTP2 }
            throw RequestRejection(.version, 505, "Only HTTP/1.1 and HTTP/1.0 are supported here.")
        }
        return version[7] == 0x30 ? .http10 : .http11
    }

    /// Parses one field line (RFC 9112 §5). Folding is rejected, and the line must end in CRLF.
    private mutating func readField() throws(RequestRejection) -> Fields.Entry {
        let start = position
        // Excludes the empty line at the end of the head.
        guard let line = FieldLine(in: head, from: start, before: head.count - 2) else { throw Self.badName(head[start]) }
        guard head[line.end] == 0x0d, head[line.end + 1] == 0x0a else {
            throw .malformed("A field value contains an invalid character, or its line does not end in CRLF.")
        }
        position = line.end + 2
        return line.entry(from: start)
    }

    private static func badName(_ first: UInt8) -> RequestRejection {
        .malformed(
            first.isOptionalWhitespace
                ? "A field line begins with white space: folded lines are not supported."
                : "A field name contains an invalid character, or white space precedes its colon.")
    }
}

/// Whether a field occurred that affects the content. A GET seldom has one; `RequestFraming` is then skipped.
private struct FramingFields {
    var isFramed = false

    mutating func note(_ entry: Fields.Entry) {
        if entry.known == .contentLength || entry.known == .transferEncoding || entry.known == .contentType { isFramed = true }
    }
}
