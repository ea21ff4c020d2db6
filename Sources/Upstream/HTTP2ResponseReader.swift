// Validates an HTTP/2 response while its parts arrive (RFC 9113 §8). The rules for HTTP/1.1 responses apply, and those for pseudo-header
// fields and connection fields. No I/O.

import HTTP2
import HTTPCore

struct HTTP2ResponseReader {
    enum Event {
        case informational(ResponseHead)
        case final(ResponseHead)
        case refused(ResponseProblem)
    }

    private enum Content: Equatable {
        /// The final head has not been received.
        case awaited
        /// The response must not have content.
        case forbidden
        /// Number of bytes of content that are still missing.
        case left(Int)
        /// The end of the stream ends the content.
        case open
    }

    private let isToHEAD: Bool
    private let limits: ResponseLimits
    private var informational = 0
    private var content = Content.awaited

    /// - Parameter method: the request's method.
    init(to method: Method, limits: ResponseLimits) {
        isToHEAD = method == .head
        self.limits = limits
    }

    /// Whether a head was received, informational or final.
    var hasBegun: Bool { informational > 0 || content != .awaited }

    /// Validates a head.
    /// - Parameter isLast: whether it ends the stream.
    mutating func take(_ section: borrowing HTTP2FieldSection, isLast: Bool) -> Event {
        guard !section.isTooLarge else { return .refused(.headTooLong) }
        guard section.entries.count <= limits.fieldCount + 1 else { return .refused(.tooManyFields) }
        guard content == .awaited else { return .refused(.secondHead) }
        do throws(ResponseProblem) {
            let head = try Self.head(section)
            return head.status.isInformational ? try take(informational: head, isLast: isLast) : try take(final: head)
        } catch {
            return .refused(error)
        }
    }

    private mutating func take(informational head: ResponseHead, isLast: Bool) throws(ResponseProblem) -> Event {
        informational += 1
        // HTTP/2 has no protocol switch (RFC 9113 §8.6), and an informational head must not end the stream.
        guard head.status != 101 else { throw .unaskedSwitch }
        guard !isLast else { throw .endedBeforeHead }
        guard informational <= limits.informational else { throw .informationalFlood }
        return .informational(head)
    }

    private mutating func take(final head: ResponseHead) throws(ResponseProblem) -> Event {
        let length = head.fields.contains(.contentLength) ? try head.fields.statedLength() : nil
        content = isToHEAD || head.status.forbidsContent ? .forbidden : length.map { .left($0) } ?? .open
        return .final(head)
    }

    /// Validates content.
    /// - Returns: the problem of content with this length (RFC 9113 §8.1.1); nil if it is valid.
    mutating func take(contentBytes count: Int) -> ResponseProblem? {
        switch content {
        case .awaited: return .unaskedContent
        case .forbidden: return count == 0 ? nil : .unaskedContent
        case .left(let left):
            content = .left(left - count)
            return count <= left ? nil : .contentTooLong
        case .open: return nil
        }
    }

    /// Whether the response is complete. Valid at the end of the stream.
    var isWhole: Bool {
        switch content {
        case .awaited: false
        case .forbidden, .open: true
        case .left(let left): left == 0
        }
    }

    // MARK: Field lines

    /// Connection fields, which make an HTTP/2 message malformed (RFC 9113 §8.2.2).
    private static let forbidden: KnownFieldSet = [.connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade]

    private static func head(_ section: borrowing HTTP2FieldSection) throws(ResponseProblem) -> ResponseHead {
        var fields = Fields(reservingBytes: section.bytes.count + 4 * section.entries.count, entries: section.entries.count)
        var status: Status?
        let bytes = section.bytes
        for entry in section.entries {
            let name = UnsafeBufferPointer(rebasing: bytes[entry.nameRange])
            let value = UnsafeBufferPointer(rebasing: bytes[entry.valueRange])
            if name.first == UInt8(ascii: ":") {
                guard status == nil, fields.count == 0, let code = Self.status(name, value) else { throw .pseudoField }
                status = code
            } else {
                guard status != nil else { throw .pseudoField }
                try append(name, value, to: &fields)
            }
        }
        guard let status else { throw .pseudoField }
        guard !fields.containsAny(of: forbidden) else { throw .connectionField }
        var head = ResponseHead(status: status, fields: fields)
        head.version = .http2
        return head
    }

    /// RFC 9113 §8.3.2, RFC 9110 §15: three digits, and an existing class.
    private static func status(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Status? {
        guard Span(_unsafeElements: name).equals(":status"), value.count == 3 else { return nil }
        var code: UInt16 = 0
        for digit in value {
            guard digit.isASCIIDigit else { return nil }
            code = code * 10 + UInt16(digit - 0x30)
        }
        return (100...599).contains(code) ? Status(rawValue: code) : nil
    }

    /// Adds a field line (RFC 9113 §8.2.1). Whitespace around the value is removed, as in HTTP/1.1.
    private static func append(
        _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, to fields: inout Fields
    ) throws(ResponseProblem) {
        guard !name.isEmpty, name.allSatisfy({ isTokenByte($0) && !(0x41...0x5a).contains($0) }) else { throw .fieldName }
        guard value.allSatisfy(isFieldValueByte) else { throw .fieldValue }
        var (first, last) = (0, value.count)
        while first < last, value[first].isOptionalWhitespace { first += 1 }
        while last > first, value[last - 1].isOptionalWhitespace { last -= 1 }
        fields.append(name: Span(_unsafeElements: name), value: Span(_unsafeElements: value).extracting(first..<last))
    }
}
