// Parses the head of an HTTP/1.1 response (RFC 9112 §4, §5) from complete lines as they arrive. Rejects ambiguous framing, control
// characters, endless heads and floods of 1xx responses. The lines of one call are copied together.

/// Limits of a response's head.
public struct ResponseLimits: Sendable, Equatable {
    /// Maximum total length of the lines in bytes, without line ends.
    public var headBytes = 65_536
    public var fieldCount = 1_000
    /// Maximum number of 1xx responses before the final one.
    public var informational = 20

    public init() {}
}

public struct ResponseHeadParser: Sendable {
    public enum Event: Sendable {
        case more
        case informational(ResponseHead)
        case final(ResponseHead, Framing)
        case refused(ResponseProblem)
    }

    /// How the end of the content is determined (RFC 9112 §6.3).
    public enum Framing: Sendable, Equatable {
        /// There is no content.
        case byProtocol
        case length(Int)
        case chunked
        case connectionEnd
        /// After a 101: another protocol.
        case tunnel
    }

    /// Whether the request offered to change the protocol.
    var mayUpgrade = false
    private var fields = Fields()
    /// Total length of the field lines so far.
    private var lineBytes = 0
    /// 0 before the status line.
    private var status: Status = 0
    private var reason: [UInt8] = []
    private var version = HTTPVersion.http11
    private var informational = 0
    /// Whether the connection may be reused after this response (RFC 9112 §9.3).
    public private(set) var isPersistent = false
    /// The upstream's keep-alive timeout in milliseconds (`Keep-Alive: timeout`); nil if it gives none.
    public private(set) var keepAlive: Int64?

    public init() {}

    /// Parses the complete lines at the start of `bytes`, up to the end of one head. Must not be called after the final head.
    /// - Returns: the event and the number of bytes consumed; 0 if the first line is incomplete.
    public mutating func take(_ bytes: Span<UInt8>, limits: ResponseLimits) -> (event: Event, count: Int) {
        bytes.withUnsafeBufferPointer { take($0, limits) }
    }

    private mutating func take(_ bytes: UnsafeBufferPointer<UInt8>, _ limits: ResponseLimits) -> (event: Event, count: Int) {
        var position = 0
        // Start of this call's field lines. Entries refer to the position to which the lines will be copied.
        var first = 0
        while position < bytes.count {
            let start = position
            // Fast path: nearly every line is a complete field line, and parsing it finds its end.
            if status != 0, let next = takeField(bytes, from: start, offset: fields.bytes.count - first) {
                position = next
                guard lineBytes <= limits.headBytes, fields.count <= limits.fieldCount else { return (.refused(excess(limits)), position) }
                continue
            }
            let end = bytes.index(of: 0x0a, from: start, before: bytes.count)
            guard end < bytes.count else { break }
            position = end + 1
            let line = start..<(end > start && bytes[end - 1] == 0x0d ? end - 1 : end)
            guard lineBytes + line.count <= limits.headBytes else { return (.refused(.headTooLong), position) }
            if status == 0 {
                guard takeStatusLine(bytes, line) else { return (.refused(Self.problem(inStatusLine: bytes, line)), position) }
                first = position
            } else {
                guard line.isEmpty else { return (.refused(problem(inFieldLine: bytes, line, limits)), position) }
                fields.take(bytes: bytes[first..<start])
                return (finish(limits), position)
            }
        }
        fields.take(bytes: bytes[first..<position])
        return (.more, position)
    }

    /// Returns the problem with an incomplete line that cannot become valid by further bytes; nil if there is none.
    public func problem(withPartOfLine bytes: Span<UInt8>, limits: ResponseLimits) -> ResponseProblem? {
        guard lineBytes + bytes.count <= limits.headBytes else { return .headTooLong }
        return status == 0 ? ResponseProblem.inStart(bytes) : nil
    }

    @inline(never)
    private static func problem(inStatusLine bytes: UnsafeBufferPointer<UInt8>, _ range: Range<Int>) -> ResponseProblem {
        ResponseProblem.inStart(Span(_unsafeElements: UnsafeBufferPointer(rebasing: bytes[range]))) ?? .statusLine
    }

    @inline(never)
    private func problem(
        inFieldLine bytes: UnsafeBufferPointer<UInt8>, _ range: Range<Int>, _ limits: ResponseLimits
    ) -> ResponseProblem {
        fields.count < limits.fieldCount ? .inFieldLine(UnsafeBufferPointer(rebasing: bytes[range])) : .tooManyFields
    }

    private func excess(_ limits: ResponseLimits) -> ResponseProblem { fields.count > limits.fieldCount ? .tooManyFields : .headTooLong }

    private static let versionStart: StaticString = "HTTP/1."

    /// Parses `HTTP/1.1 200` and a reason phrase, which may be empty; the space before it may be missing. Returns false if the line is
    /// something else.
    private mutating func takeStatusLine(_ bytes: UnsafeBufferPointer<UInt8>, _ range: Range<Int>) -> Bool {
        let line = UnsafeBufferPointer(rebasing: bytes[range])
        let text = Span(_unsafeElements: line)
        guard line.count >= 12, text.extracting(..<7).equals(Self.versionStart), line[8] == 0x20 else { return false }
        switch line[7] {
        case UInt8(ascii: "1"): version = .http11
        case UInt8(ascii: "0"): version = .http10
        default: return false
        }
        var code: UInt16 = 0
        for index in 9..<12 {
            guard line[index].isASCIIDigit else { return false }
            code = code * 10 + UInt16(line[index] - 0x30)
        }
        guard code >= 100, line.count == 12 || line[12] == 0x20, line.endOfFieldValue(from: 12, before: line.count) == line.count else {
            return false
        }
        status = Status(rawValue: code)
        let phrase = text.extracting(min(13, line.count)...)
        // The standard phrase is not stored, because an empty one stands for it.
        reason = phrase.equals(ReasonPhrase.standard(for: status)) ? [] : phrase.withUnsafeBufferPointer { Array($0) }
        return true
    }

    /// - Returns: start of the next line; nil if there is no complete field line.
    private mutating func takeField(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int, offset: Int) -> Int? {
        // The empty line that ends the head.
        guard bytes[start] != 0x0d, bytes[start] != 0x0a,
            let field = FieldLine(in: bytes, from: start, before: bytes.count)
                ?? FieldLine(spacedIn: bytes, from: start, before: bytes.count)
        else { return nil }
        // Some origins send a bare LF. In a response's field line it is unambiguous; a bare CR is rejected.
        let end = field.end < bytes.count && bytes[field.end] == 0x0d ? field.end + 1 : field.end
        guard end < bytes.count, bytes[end] == 0x0a else { return nil }
        fields.take(field.entry(from: start, movedBy: offset))
        lineBytes += field.end - start
        return end + 1
    }

    private mutating func finish(_ limits: ResponseLimits) -> Event {
        // Swapped out, so that no second reference to the storage exists.
        var taken = Fields()
        swap(&taken, &fields)
        guard !status.isInformational else { return finishInformational(taken, limits) }
        do throws(ResponseProblem) {
            let framing = try Self.framing(status, taken, version)
            isPersistent = version != .http10 && framing != .connectionEnd && !taken.areLastOnConnection
            keepAlive = taken.keepAlive
            return .final(head(taken), framing)
        } catch {
            return .refused(error)
        }
    }

    private mutating func finishInformational(_ fields: consuming Fields, _ limits: ResponseLimits) -> Event {
        let head = head(fields)
        (status, lineBytes) = (0, 0)
        informational += 1
        if head.status == 101, mayUpgrade, version == .http11 {
            isPersistent = false
            return .final(head, .tunnel)
        }
        guard head.status != 101 else { return .refused(.unaskedSwitch) }
        guard informational <= limits.informational else { return .refused(.informationalFlood) }
        return .informational(head)
    }

    private func head(_ fields: consuming Fields) -> ResponseHead {
        var head = ResponseHead(status: status, reason: reason, fields: fields)
        head.version = version
        return head
    }

    private static let framingFields: KnownFieldSet = [.contentLength, .transferEncoding]

    /// Determines the framing (RFC 9112 §6.3). Throws if it is ambiguous.
    private static func framing(_ status: Status, _ fields: Fields, _ version: HTTPVersion) throws(ResponseProblem) -> Framing {
        var framing = Framing.connectionEnd
        if fields.containsAny(of: framingFields) { framing = try Self.framing(fields, version) }
        return status.forbidsContent ? .byProtocol : framing
    }

    private static func framing(_ fields: Fields, _ version: HTTPVersion) throws(ResponseProblem) -> Framing {
        guard fields.contains(.transferEncoding) else { return .length(try fields.statedLength()) }
        let codings = FieldLists.members(of: .transferEncoding, in: fields, limit: 2)
        // RFC 9112 §6.1: HTTP/1.0 has no transfer codings. A field without a coding is not a valid list (RFC 9110 §5.6.1), and parsers
        // disagree on it.
        if version == .http10 { throw .codingInHTTP10 }
        if codings.isEmpty { throw .emptyCoding }
        guard !fields.contains(.contentLength) else { throw .lengthAndCoding }
        guard codings.count == 1, codings[0].equalsIgnoringCase("chunked") else { throw .unknownCoding }
        return .chunked
    }

    /// Maximum number of digits in a length. The sum of two such lengths does not overflow.
    fileprivate static let lengthDigits = 15
}

extension ResponseHead {
    /// Value of Content-Length, which the parser has checked; nil if absent.
    public var contentLength: Int? {
        guard let entry = fields.firstEntry(.contentLength), entry.valueLength <= ResponseHeadParser.lengthDigits else { return nil }
        let text = fields.bytes.span.extracting(entry.valueRange)
        var length = 0
        for index in text.indices { length = length * 10 + Int(text[index] & 0x0f) }
        return length
    }
}

extension Fields {
    /// Returns the value of Content-Length, which must be present. Throws unless all lines have one value that consists of digits.
    public func statedLength() throws(ResponseProblem) -> Int {
        guard let entry = firstEntry(.contentLength), entry.valueLength > 0, entry.valueLength <= ResponseHeadParser.lengthDigits
        else { throw .contentLength }
        guard isOneValue(.contentLength) else { throw .contentLengthsDiffer }
        var length = 0
        let text = bytes.span.extracting(entry.valueRange)
        for index in text.indices {
            guard text[index].isASCIIDigit else { throw .contentLength }
            length = length * 10 + Int(text[index] - 0x30)
        }
        return length
    }

    /// Whether the fields state that the connection ends after this response.
    fileprivate var areLastOnConnection: Bool { contains(.proxyConnection) || connectionNames("close") }

    /// The timeout in `Keep-Alive: timeout=5, max=100`, in milliseconds; at most a day. nil if absent or not a number.
    fileprivate var keepAlive: Int64? {
        guard contains(.keepAlive) else { return nil }
        let name: StaticString = "timeout="
        let nameCount = name.utf8CodeUnitCount
        for member in FieldLists.members(of: .keepAlive, in: self) where member.count > nameCount {
            let digits = member.dropFirst(nameCount)
            guard member.prefix(nameCount).equalsIgnoringCase(name), digits.allSatisfy(\.isASCIIDigit) else { continue }
            return digits.count > 5 ? 86_400_000 : digits.reduce(Int64(0)) { $0 * 10 + Int64($1 - 0x30) } * 1000
        }
        return nil
    }
}
