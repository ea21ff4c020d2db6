// The operator's additional requirements for a route's responses. If a stored response exists, a response that violates them counts as an
// upstream failure.

import HTTPCore
import JSON

public struct GoodResponse: Sendable, Equatable {
    /// Accepted types as `type/subtype` or `+suffix`. An empty list accepts any type.
    public var contentTypes = ContentTypes([])
    /// Limits of the decoded content in bytes. A maximum of 0 disables it.
    public var minimumBytes = 0
    public var maximumBytes = 0
    /// Values that JSON content must contain.
    public var mustHave: [JSONPointer] = []
    /// Values that JSON content must not contain.
    public var mustNotHave: [JSONPointer] = []
    /// Minimum length in percent of the stored response's length. 0 disables the check.
    public var shrinkLimit = 0

    public init() {}

    public func faultOfHead(_ response: ResponseHead) -> UpstreamFault? {
        guard response.status.isSuccessful, !contentTypes.isEmpty else { return nil }
        return contentTypes.contain(MediaType(of: response.fields)) ? nil : .unexpectedType
    }

    /// - Parameter bytes: length of the decoded content.
    public func faultOfLength(_ bytes: Int, storedBytes: Int?) -> UpstreamFault? {
        if bytes < minimumBytes || (maximumBytes > 0 && bytes > maximumBytes) { return .unexpectedSize }
        guard let storedBytes, shrinkLimit > 0, bytes * 100 < storedBytes * shrinkLimit else { return nil }
        return .shrunk
    }

    /// True if the content is searched completely, which takes noticeable time for long content.
    public var searchesContent: Bool { !mustHave.isEmpty || !mustNotHave.isEmpty }

    /// - Parameters:
    ///   - content: decoded, and valid if it is JSON.
    ///   - storedBytes: length of the stored response's content; nil if there is none.
    public func faultOfContent(_ content: Span<UInt8>, isJSON: Bool, storedBytes: Int?) -> UpstreamFault? {
        if let fault = faultOfLength(content.count, storedBytes: storedBytes) { return fault }
        guard searchesContent else { return nil }
        guard isJSON else { return mustHave.isEmpty ? nil : .missingValue }
        let found = JSONPointer.found(mustHave + mustNotHave, in: content)
        if found.prefix(mustHave.count).contains(false) { return .missingValue }
        if found.dropFirst(mustHave.count).contains(true) { return .unwantedValue }
        return nil
    }
}

/// Media types in the operator's notation: `type/subtype`, `+suffix`, or `*` for all.
public struct ContentTypes: Sendable, Equatable {
    private let patterns: [[UInt8]]

    public init(_ texts: [String]) { patterns = texts.map { $0.utf8.map(\.asciiLowercased) } }

    public var isEmpty: Bool { patterns.isEmpty }

    /// The accepted notations, for messages.
    public static let forms = "type/subtype, +suffix or *"

    /// Returns whether the text is a valid pattern.
    public static func isPattern(_ text: String) -> Bool {
        if text == "*" { return true }
        let names = text.hasPrefix("+") ? [text.dropFirst()] : text.split(separator: "/", omittingEmptySubsequences: false)
        return names.count == (text.hasPrefix("+") ? 1 : 2)
            && names.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy { isTokenByte($0) && $0 != UInt8(ascii: "*") } }
    }

    public func contain(_ type: MediaType?) -> Bool {
        patterns.contains { pattern in
            if pattern == [UInt8(ascii: "*")] { return true }
            guard let type else { return false }
            guard pattern.first == UInt8(ascii: "+") else { return type.isEssence(pattern) }
            return type.suffix.equalsIgnoringCase(pattern.dropFirst())
        }
    }
}
