// Converts the head of an HTTP/2 request (RFC 9113 §8.3) to HTTP/1.1 text, which the HTTP/1.1 parser reads. So one set of rules applies to
// both versions, and a request never has two interpretations. Bytes that would begin another line or request are rejected before.

import HTTP2
import HTTPCore

enum HTTP2RequestHead {
    enum Reading {
        case head(RequestHead, ContentFraming)
        /// The client receives an error response.
        case refused(RequestRejection)
        /// The head is one that no conforming client sends (RFC 9113 §8.1.1). The stream is reset.
        case malformed
    }

    /// - Parameter endsStream: whether no content follows.
    static func read(_ section: borrowing HTTP2FieldSection, endsStream: Bool, limits: RequestLimits) -> Reading {
        if section.isTooLarge { return .refused(RequestParser.tooLarge) }
        guard let parts = Parts(section) else { return .malformed }
        if let rejection = parts.rejection(section, limits) { return .refused(rejection) }
        guard let text = parts.written(section) else { return .malformed }
        do throws(RequestRejection) {
            let (head, framing) = try RequestParser.read(written: text.span, version: .http2, limits: limits)
            guard !head.fields.containsAny(of: ofConnection) else { return .malformed }
            return .head(head, endsStream || framing != .none ? framing : .chunked)
        } catch {
            return .refused(error)
        }
    }

    /// Fields of the connection, which HTTP/2 forbids (RFC 9113 §8.2.2).
    private static let ofConnection: KnownFieldSet = [
        .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade, .http2Settings,
    ]

    /// Limits of the field section. A Cookie field may arrive in pieces (RFC 9113 §8.2.3) that later count as one field, so more lines are
    /// allowed.
    static func fieldLimits(_ limits: RequestLimits) -> HTTP2FieldLimits {
        HTTP2FieldLimits(bytes: limits.headBytes + limits.targetBytes, count: limits.fieldCount + 200)
    }
}

/// The pseudo-header fields (RFC 9113 §8.3.1), as ranges of the section's bytes.
private struct Parts {
    private var method: Range<Int>?
    private var scheme: Range<Int>?
    private var authority: Range<Int>?
    private var path: Range<Int>?
    /// Index of the first field line after the pseudo-header fields.
    private var firstField = 0

    /// Returns nil if a pseudo-header field is missing, repeated, unknown or after a regular field.
    init?(_ section: borrowing HTTP2FieldSection) {
        let bytes = Span(_unsafeElements: section.bytes)
        let entries = section.entries
        while firstField < entries.count, Self.isPseudoField(entries[firstField], bytes) {
            let entry = entries[firstField]
            guard take(bytes.extracting(entry.nameRange), entry.valueRange) else { return nil }
            firstField += 1
        }
        for entry in entries[firstField...] where Self.isPseudoField(entry, bytes) { return nil }
        guard let method, !method.isEmpty else { return nil }
        if isConnect(bytes) {
            guard scheme == nil, path == nil, authority != nil else { return nil }
        } else {
            guard scheme != nil, let path, !path.isEmpty else { return nil }
        }
    }

    private static func isPseudoField(_ entry: HTTP2FieldSection.Entry, _ bytes: Span<UInt8>) -> Bool {
        entry.nameLength > 0 && bytes[Int(entry.nameStart)] == UInt8(ascii: ":")
    }

    private mutating func take(_ name: Span<UInt8>, _ value: Range<Int>) -> Bool {
        func put(_ field: inout Range<Int>?) -> Bool {
            guard field == nil else { return false }
            field = value
            return true
        }
        if name.equals(":method") { return put(&method) }
        if name.equals(":scheme") { return put(&scheme) }
        if name.equals(":authority") { return put(&authority) }
        return name.equals(":path") && put(&path)
    }

    private func isConnect(_ bytes: Span<UInt8>) -> Bool { method.map { bytes.extracting($0).equals("CONNECT") } ?? false }

    /// Returns errors that the HTTP/1.1 parser cannot detect, or would interpret differently.
    func rejection(_ section: borrowing HTTP2FieldSection, _ limits: RequestLimits) -> RequestRejection? {
        let bytes = Span(_unsafeElements: section.bytes)
        guard let path, let scheme else { return nil }
        guard path.count <= limits.targetBytes else { return .targetTooLong }
        // The scheme need not match the connection: a proxy that terminates TLS in front of Cistern may forward the client's scheme.
        guard bytes.extracting(scheme).equalsIgnoringCase("http") || bytes.extracting(scheme).equalsIgnoringCase("https") else {
            return RequestRejection(.malformed, 400, "The request's scheme must be http or https.")
        }
        guard bytes[path.lowerBound] == UInt8(ascii: "/") || bytes.extracting(path).equals("*") else {
            return RequestRejection(.malformed, 400, "The request target must be a path.")
        }
        return nil
    }

    /// Returns the head as HTTP/1.1 text; nil if a byte in it would change its meaning.
    func written(_ section: borrowing HTTP2FieldSection) -> [UInt8]? {
        let bytes = Span(_unsafeElements: section.bytes)
        guard let method, let target = path ?? authority else { return nil }
        for range in [method, target] {
            for index in range where bytes[index] <= 0x20 || bytes[index] == 0x7f { return nil }
        }
        var text: [UInt8] = []
        text.reserveCapacity(section.bytes.count + 4 * section.entries.count + 64)
        text.append(copying: bytes.extracting(method))
        text.append(0x20)
        text.append(copying: bytes.extracting(target))
        text.append(" HTTP/1.1\r\n")
        if let authority { guard text.appendLine("host", bytes.extracting(authority)) else { return nil } }
        guard appendFields(of: section, to: &text) else { return nil }
        text.append("\r\n")
        return text
    }

    private func appendFields(of section: borrowing HTTP2FieldSection, to text: inout [UInt8]) -> Bool {
        let bytes = Span(_unsafeElements: section.bytes)
        var cookie: [UInt8]?
        for entry in section.entries[firstField...] {
            let (name, value) = (bytes.extracting(entry.nameRange), bytes.extracting(entry.valueRange))
            switch KnownField(name) {
            // A Host field equal to :authority is allowed and dropped (RFC 9113 §8.3.1). A different one is kept, so that the parser
            // rejects the request for its two hosts.
            case .host:
                if let authority, bytes.extracting(authority).equalsIgnoringCase(value) { continue }
            // The pieces are joined (RFC 9113 §8.2.3).
            case .cookie:
                if cookie != nil { cookie?.append("; ") }
                cookie = (cookie ?? []) + value.withUnsafeBufferPointer { Array($0) }
                continue
            case .te: guard value.equalsIgnoringCase("trailers") else { return false }
            default: break
            }
            guard text.appendLine(named: name, value) else { return false }
        }
        guard let cookie else { return true }
        return text.appendLine("cookie", cookie.span)
    }
}

extension [UInt8] {
    /// Appends a field line.
    /// - Returns: false if the value has a byte that is not allowed.
    fileprivate mutating func appendLine(_ name: StaticString, _ value: Span<UInt8>) -> Bool {
        append(name)
        return appendEnd(value)
    }

    /// Appends a field line.
    /// - Returns: false if the name (RFC 9113 §8.2.1) or the value has a byte that is not allowed.
    fileprivate mutating func appendLine(named name: Span<UInt8>, _ value: Span<UInt8>) -> Bool {
        guard name.count > 0 else { return false }
        for index in name.indices where !isTokenByte(name[index]) || name[index] &- 0x41 < 26 { return false }
        append(copying: name)
        return appendEnd(value)
    }

    private mutating func appendEnd(_ value: Span<UInt8>) -> Bool {
        for index in value.indices where !isFieldValueByte(value[index]) { return false }
        append(": ")
        append(copying: value)
        append("\r\n")
        return true
    }
}
