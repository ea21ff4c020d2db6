// Who asked, as those in front of us say it (RFC 7239, and the older X-Forwarded-*). A client can write anything into these fields, so only what
// proxies that are trusted have added to them counts: they are walked from the right.

import HTTPCore

/// The field that trusted proxies write.
package enum ForwardedField: String, Sendable, CaseIterable {
    /// X-Forwarded-For where there is one, else Forwarded.
    case auto
    case forwarded
    case xForwardedFor = "x-forwarded-for"
}

package struct ForwardedClient: Sendable, Equatable {
    package var address: IPAddress
    /// The scheme that the client used, where the proxy said it.
    package var isSecure: Bool?

    /// What is walked at most; who is further away is as good as unknown.
    private static let limit = 64

    /// - Parameters:
    ///   - peer: the address that the connection came from, a trusted one.
    ///   - trusted: the proxies that are believed.
    package init(_ fields: Fields, from peer: IPAddress, _ field: ForwardedField, trusted: NetworkList) {
        address = peer
        let usesForwarded = field == .forwarded || field == .auto && !fields.contains(.xForwardedFor) && fields.contains(.forwarded)
        if usesForwarded {
            walk(Self.forwardedElements(fields), trusted)
        } else {
            let lines = fields.all(.xForwardedFor)
            walk(
                lines.flatMap { $0.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) }.map { Element(node: $0) },
                trusted)
            isSecure = Self.isSecure(fields.all(.xForwardedProto).last.map { Self.last($0) })
        }
    }

    private struct Element {
        /// nil where it is not said.
        var node: ArraySlice<UInt8>?
        var proto: ArraySlice<UInt8>?
    }

    /// The first from the right that is no trusted proxy is the client. What cannot be read ends the walk: nobody vouches for what is left of it.
    private mutating func walk(_ elements: [Element], _ trusted: NetworkList) {
        for element in elements.suffix(Self.limit).reversed() {
            guard let node = element.node, let found = Self.address(node) else { return }
            address = found
            if let secure = Self.isSecure(element.proto) { isSecure = secure }
            guard trusted.contains(found) else { return }
        }
    }

    private static func isSecure(_ proto: ArraySlice<UInt8>?) -> Bool? {
        guard let proto = proto.map(trimmed) else { return nil }
        if proto.equalsIgnoringCase("https") { return true }
        return proto.equalsIgnoringCase("http") ? false : nil
    }

    private static func last(_ value: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        value.lastIndex(of: UInt8(ascii: ",")).map { value[($0 + 1)...] } ?? value
    }

    private static func trimmed(_ value: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
        guard let first = value.firstIndex(where: { !isSpace($0) }), let last = value.lastIndex(where: { !isSpace($0) }) else { return [] }
        return value[first...last]
    }

    /// An address, perhaps with a port: `192.0.2.1`, `192.0.2.1:4711`, `[2001:db8::1]:4711`, `2001:db8::1`.
    static func address(_ node: ArraySlice<UInt8>) -> IPAddress? {
        let node = trimmed(node)
        if node.first == UInt8(ascii: "[") {
            guard let end = node.firstIndex(of: UInt8(ascii: "]")), isPort(node[(end + 1)...]) else { return nil }
            return IPAddress(node[(node.startIndex + 1)..<end])
        }
        guard let colon = node.firstIndex(of: UInt8(ascii: ":")), node.lastIndex(of: UInt8(ascii: ":")) == colon else {
            return IPAddress(node)
        }
        return isPort(node[colon...]) ? IPAddress(node[..<colon]) : nil
    }

    private static func isPort(_ text: ArraySlice<UInt8>) -> Bool {
        guard let first = text.first else { return true }
        // A port may be hidden as well (RFC 7239 §6.3).
        return first == UInt8(ascii: ":") && (2...17).contains(text.count)
            && text.dropFirst().allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: ":") }
    }

    // MARK: Forwarded

    /// RFC 7239 §4: elements by commas, pairs by semicolons, values perhaps quoted. What is not well formed is an element that says nothing.
    private static func forwardedElements(_ fields: Fields) -> [Element] {
        var elements: [Element] = []
        for line in fields.all(.forwarded) {
            for member in separate(line, by: UInt8(ascii: ",")) {
                var element = Element()
                for pair in separate(member, by: UInt8(ascii: ";")) { read(pair, into: &element) }
                elements.append(element)
            }
        }
        return elements
    }

    private static func read(_ pair: ArraySlice<UInt8>, into element: inout Element) {
        guard let equals = pair.firstIndex(of: UInt8(ascii: "=")) else { return }
        let name = trimmed(pair[..<equals])
        let value = unquoted(trimmed(pair[(equals + 1)...]))
        if name.equalsIgnoringCase("for") { element.node = value } else if name.equalsIgnoringCase("proto") { element.proto = value }
    }

    /// Separators in quotes separate nothing.
    private static func separate(_ text: ArraySlice<UInt8>, by separator: UInt8) -> [ArraySlice<UInt8>] {
        var parts: [ArraySlice<UInt8>] = []
        var (start, isQuoted, isEscaped) = (text.startIndex, false, false)
        for place in text.indices {
            let byte = text[place]
            if isEscaped {
                isEscaped = false
            } else if isQuoted, byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == separator, !isQuoted {
                parts.append(text[start..<place])
                start = place + 1
            }
        }
        return parts + [text[start...]]
    }

    private static func unquoted(_ value: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard value.count >= 2, value.first == UInt8(ascii: "\""), value.last == UInt8(ascii: "\"") else { return value }
        return value.dropFirst().dropLast()
    }
}
