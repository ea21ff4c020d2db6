// Determines a client's address from Forwarded (RFC 7239) or X-Forwarded-For. Clients can write anything into these fields, so only entries
// added by trusted proxies count. The list is evaluated from the right and ends at the first untrusted address.

import HTTPCore

/// The field that trusted proxies set.
public enum ForwardedField: String, Sendable, CaseIterable {
    /// X-Forwarded-For if present, else Forwarded.
    case auto
    case forwarded
    case xForwardedFor = "x-forwarded-for"
}

public struct ForwardedClient: Sendable, Equatable {
    public private(set) var address: ClientAddress
    /// Whether the client used https, according to the proxy; nil if unknown.
    public private(set) var isSecure: Bool?

    /// Maximum number of entries to evaluate; with more, the client is unknown.
    private static let limit = 64

    /// - Parameters:
    ///   - peer: address of the connection, which is trusted.
    ///   - trusted: the trusted proxies.
    public init(_ fields: Fields, from peer: ClientAddress, _ field: ForwardedField, trusted: NetworkList) {
        address = peer
        if field == .forwarded || field == .auto && !fields.contains(.xForwardedFor) && fields.contains(.forwarded) {
            walk(fields.all(.forwarded), trusted, Self.elements)
        } else {
            walk(fields.all(.xForwardedFor), trusted, Self.members)
            isSecure = Self.isSecure(fields.all(.xForwardedProto).last.map { Self.last($0) })
        }
    }

    private struct Element {
        /// nil if missing or ambiguous.
        var node: ArraySlice<UInt8>?
        var proto: ArraySlice<UInt8>?
    }

    /// Finds the client: the first address from the right that is not a trusted proxy.
    /// - Parameter elements: returns the last elements of a line in order; nil if the line cannot be parsed.
    private mutating func walk(_ lines: [ArraySlice<UInt8>], _ trusted: NetworkList, _ elements: (ArraySlice<UInt8>) -> [Element]?) {
        var left = Self.limit
        for line in lines.reversed() {
            guard let elements = elements(line) else {
                address = .unknown
                return
            }
            for element in elements.reversed() {
                left -= 1
                guard left >= 0, let found = element.node.flatMap(Self.address) else {
                    address = .unknown
                    return
                }
                address = .known(found)
                if let secure = Self.isSecure(element.proto) { isSecure = secure }
                guard trusted.contains(found) else { return }
            }
        }
    }

    private static func isSecure(_ proto: ArraySlice<UInt8>?) -> Bool? {
        guard let proto = proto?.trimmed else { return nil }
        if proto.equalsIgnoringCase("https") { return true }
        return proto.equalsIgnoringCase("http") ? false : nil
    }

    private static func last(_ value: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        value.lastIndex(of: UInt8(ascii: ",")).map { value[($0 + 1)...] } ?? value
    }

    /// Parses an address with an optional port: `192.0.2.1`, `192.0.2.1:4711`, `[2001:db8::1]:4711`, `2001:db8::1`.
    static func address(_ node: ArraySlice<UInt8>) -> IPAddress? {
        let node = node.trimmed
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
        // A port may be obfuscated (RFC 7239 §6.3).
        return first == UInt8(ascii: ":") && (2...17).contains(text.count)
            && text.dropFirst().allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: ":") }
    }

    // MARK: Elements

    /// Returns the last elements of X-Forwarded-For: one more than the limit, to detect that there are too many.
    private static func members(_ line: ArraySlice<UInt8>) -> [Element]? {
        var members: [Element] = []
        var rest = line
        while members.count <= limit {
            let comma = rest.lastIndex(of: UInt8(ascii: ","))
            members.append(Element(node: comma.map { rest[($0 + 1)...] } ?? rest))
            guard let comma else { break }
            rest = rest[..<comma]
        }
        return members.reversed()
    }

    /// Returns the last elements of Forwarded (RFC 7239 §4): elements are separated by commas, pairs by semicolons, and values may be
    /// quoted.
    /// - Returns: nil if a quote is not terminated. A client could use that to hide the proxy's entry after it.
    private static func elements(_ line: ArraySlice<UInt8>) -> [Element]? {
        guard let members = separate(line, by: UInt8(ascii: ",")) else { return nil }
        return members.suffix(limit + 1).map { member in
            var element = Element()
            for pair in separate(member, by: UInt8(ascii: ";")) ?? [] where !read(pair, into: &element) { return Element() }
            return element
        }
    }

    /// - Returns: false if the pair repeats an earlier parameter.
    private static func read(_ pair: ArraySlice<UInt8>, into element: inout Element) -> Bool {
        guard let equals = pair.firstIndex(of: UInt8(ascii: "=")) else { return true }
        let name = pair[..<equals].trimmed
        let value = unquoted(pair[(equals + 1)...].trimmed)
        if name.equalsIgnoringCase("for") {
            guard element.node == nil else { return false }
            element.node = value
        } else if name.equalsIgnoringCase("proto") {
            guard element.proto == nil else { return false }
            element.proto = value
        }
        return true
    }

    /// Splits text at separators outside of quotes; nil if a quote is not terminated.
    private static func separate(_ text: ArraySlice<UInt8>, by separator: UInt8) -> [ArraySlice<UInt8>]? {
        var ends: [Int] = []
        var (isQuoted, isEscaped) = (false, false)
        for index in text.indices {
            let byte = text[index]
            if isEscaped {
                isEscaped = false
            } else if isQuoted, byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == separator, !isQuoted {
                ends.append(index)
            }
        }
        guard !isQuoted else { return nil }
        let last = ends.suffix(limit + 1)
        let starts = [ends.count > last.count ? ends[ends.count - last.count - 1] + 1 : text.startIndex] + last.map { $0 + 1 }
        return zip(starts, last + [text.endIndex]).map { text[$0..<$1] }
    }

    private static func unquoted(_ value: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard value.count >= 2, value.first == UInt8(ascii: "\""), value.last == UInt8(ascii: "\"") else { return value }
        return value.dropFirst().dropLast()
    }
}
