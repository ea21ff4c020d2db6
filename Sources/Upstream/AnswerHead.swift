// Puts an answer's head together from its lines, and refuses what may not be in one: framing that can be read in two ways, control
// characters, heads without end, floods of 1xx answers.

import Glibc
import HTTPCore

struct AnswerHead {
    enum Event {
        case more
        case informational(ResponseHead)
        case final(ResponseHead, Framing)
        /// A line after the head: a trailer. Dropped (RFC 9110 §6.5.1).
        case trailer
        case refused(UpstreamError)
    }

    /// What marks the end of the content (RFC 9112 §6.3).
    enum Framing: Equatable {
        /// There is none.
        case byProtocol
        case length(Int)
        case chunked
        case connectionEnd
    }

    private var bytes: [UInt8] = []
    private var entries: [Fields.Entry] = []
    private var status: Status = 0
    private var reason: [UInt8] = []
    private var version = Version.http11
    /// Whether the connection may go on after this answer (RFC 9112 §9.3).
    private(set) var isPersistent = false
    private var isFinished = false
    private var informational = 0

    /// How long the upstream says that it keeps the connection, in milliseconds; nil where it says nothing.
    private(set) var keepAlive: Int64?

    private enum Version { case http10, http11 }

    /// Reads the whole lines at the start of `bytes`, no further than to the end of one head.
    /// - Returns: what they come to, and their length: 0 where the first line has no end yet.
    mutating func take(_ bytes: Span<UInt8>, limits: TransferLimits) -> (event: Event, count: Int) {
        bytes.withUnsafeBufferPointer { bytes in
            var position = 0
            while let end = Self.endOfLine(in: bytes, from: position) {
                let line = UnsafeBufferPointer(rebasing: bytes[position..<end])
                position = end + 1
                guard !isFinished else { return (.trailer, position) }
                // A bare LF is what some origins send; it cannot be misread in a response's field line, and CR alone is refused below.
                let text = line.last == 0x0d ? UnsafeBufferPointer(rebasing: line.dropLast()) : line
                if let problem = takeLine(text, limits) { return (.refused(problem), position) }
                if text.isEmpty { return (finish(limits), position) }
            }
            return (.more, position)
        }
    }

    private static func endOfLine(in bytes: UnsafeBufferPointer<UInt8>, from position: Int) -> Int? {
        guard position < bytes.count, let start = bytes.baseAddress, let end = memchr(start + position, 0x0a, bytes.count - position) else {
            return nil
        }
        return UnsafeRawPointer(end) - UnsafeRawPointer(start)
    }

    /// - Parameter line: without its end.
    private mutating func takeLine(_ line: UnsafeBufferPointer<UInt8>, _ limits: TransferLimits) -> UpstreamError? {
        guard bytes.count + line.count <= limits.headBytes else { return .responseHeaderTooLarge }
        guard status.rawValue != 0 else { return takeStatusLine(Span(_unsafeElements: line)) }
        guard entries.count < limits.fieldCount else { return .responseHeaderTooLarge }
        return line.isEmpty ? nil : takeField(line)
    }

    /// What is wrong with these bytes, whatever may still come of their line: the rest is not waited for then.
    func problem(withPartOfLine bytes: Span<UInt8>, limits: TransferLimits) -> UpstreamError? {
        guard self.bytes.count + bytes.count <= limits.headBytes else { return .responseHeaderTooLarge }
        guard status == 0, !isFinished else { return nil }
        let count = min(bytes.count, Self.statusLineStart.count)
        return bytes.extracting(0..<count).withUnsafeBytes { $0.elementsEqual(Self.statusLineStart.prefix(count)) } ? nil : .protocolError
    }

    private static let statusLineStart = Array("HTTP/1.".utf8)

    private mutating func takeStatusLine(_ line: Span<UInt8>) -> UpstreamError? {
        var space = 0
        while space < line.count, line[space] != 0x20 { space += 1 }
        guard line.count >= space + 4, let version = Self.version(line.extracting(0..<space)) else { return .protocolError }
        self.version = version
        var code: UInt16 = 0
        for index in space + 1..<space + 4 {
            guard line[index].isASCIIDigit else { return .protocolError }
            code = code * 10 + UInt16(line[index] - 0x30)
        }
        guard code >= 100, line.count == space + 4 || line[space + 4] == 0x20 else { return .protocolError }
        for index in space + 4..<line.count where !isFieldValueByte(line[index]) { return .protocolError }
        status = Status(rawValue: code)
        bytes.reserveCapacity(512)
        entries.reserveCapacity(16)
        let phrase = line.extracting(min(space + 5, line.count)...)
        // The usual one need not be kept: it stands for an empty one.
        reason = phrase.equals(ReasonPhrase.standard(for: status)) ? [] : phrase.withUnsafeBufferPointer { Array($0) }
        return nil
    }

    private static func version(_ name: Span<UInt8>) -> Version? {
        if name.equals("HTTP/1.1") { return .http11 }
        return name.equals("HTTP/1.0") ? .http10 : nil
    }

    private mutating func takeField(_ line: UnsafeBufferPointer<UInt8>) -> UpstreamError? {
        var colon = 0
        while colon < line.count, isTokenByte(line[colon]) { colon += 1 }
        guard colon > 0, colon < line.count, line[colon] == 0x3a else { return .protocolError }
        var start = colon + 1
        var end = line.count
        while start < end, line[start].isOptionalWhitespace { start += 1 }
        while end > start, line[end - 1].isOptionalWhitespace { end -= 1 }
        var checked = start
        while checked < end, isFieldValueByte(line[checked]) { checked += 1 }
        guard checked == end else { return .protocolError }
        let base = UInt32(bytes.count)
        entries.append(
            Fields.Entry(
                nameStart: base, nameLength: UInt32(colon), valueStart: base + UInt32(start), valueLength: UInt32(end - start),
                known: KnownField(Span(_unsafeElements: UnsafeBufferPointer(rebasing: line[..<colon])))))
        bytes.append(contentsOf: line)
        return nil
    }

    private mutating func finish(_ limits: TransferLimits) -> Event {
        let head = ResponseHead(status: status, reason: reason, fields: Fields(bytes: bytes, entries: entries))
        if status.isInformational {
            informational += 1
            guard status != 101, informational <= limits.informational else { return .refused(.protocolError) }
            (bytes, entries, status) = ([], [], 0)
            return .informational(head)
        }
        isFinished = true
        let codings = FieldLists.members(of: .transferEncoding, in: head.fields, limit: 2)
        // RFC 9112 §6.1: HTTP/1.0 knows no transfer codings. A field that names none is not a list (RFC 9110 §5.6.1), and not read alike by all.
        if head.fields.contains(.transferEncoding), version == .http10 || codings.isEmpty { return .refused(.transferCoding) }
        let length = head.fields.first(.contentLength)
        if let problem = Self.framingProblem(length, codings, head.fields) { return .refused(problem) }
        let framing = framing(length, isChunked: !codings.isEmpty)
        isPersistent =
            version != .http10 && framing != .connectionEnd && !head.fields.connectionNames("close")
            && !head.fields.contains(.proxyConnection)
        keepAlive = Self.keepAlive(head.fields)
        return .final(head, framing)
    }

    /// `Keep-Alive: timeout=5, max=100`: the seconds, of digits only and no more than a day's.
    private static func keepAlive(_ fields: Fields) -> Int64? {
        guard fields.contains(.keepAlive) else { return nil }
        let name = Array("timeout=".utf8)
        for member in FieldLists.members(of: .keepAlive, in: fields) where member.count > name.count {
            let digits = member.dropFirst(name.count)
            guard member.prefix(name.count).equalsIgnoringCase("timeout="), digits.allSatisfy(\.isASCIIDigit) else { continue }
            return digits.count > 5 ? 86_400_000 : digits.reduce(Int64(0)) { $0 * 10 + Int64($1 - 0x30) } * 1000
        }
        return nil
    }

    private func framing(_ length: ArraySlice<UInt8>?, isChunked: Bool) -> Framing {
        if status.forbidsContent { return .byProtocol }
        if isChunked { return .chunked }
        guard let length else { return .connectionEnd }
        return .length(length.reduce(0) { $0 * 10 + Int($1 - 0x30) })
    }

    /// RFC 9112 §6.3: what could be read in two ways is not used.
    private static func framingProblem(_ length: ArraySlice<UInt8>?, _ codings: [ArraySlice<UInt8>], _ fields: Fields) -> UpstreamError? {
        if let length {
            guard !length.isEmpty, length.count <= 15, length.allSatisfy(\.isASCIIDigit), fields.isOneValue(.contentLength) else {
                return .protocolError
            }
        }
        guard !codings.isEmpty else { return nil }
        guard length == nil else { return .protocolError }
        return codings.count == 1 && codings[0].equalsIgnoringCase("chunked") ? nil : .transferCoding
    }
}
