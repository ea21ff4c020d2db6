// What the operator demands of a route's responses beyond what holds for all: a response that fails it counts as a failing upstream where a
// copy exists.

import HTTPCore
import JSON

public struct GoodResponse: Sendable, Equatable {
    /// `type/subtype` or `+suffix`; none: any.
    public var contentTypes = ContentTypes([])
    /// Bytes of decoded content; a maximum of 0: any.
    public var minimumBytes = 0
    public var maximumBytes = 0
    public var mustHave: [JSONPointer] = []
    public var mustNotHave: [JSONPointer] = []
    /// At least this percentage of the stored one's length; 0: any.
    public var shrinkLimit = 0

    public init() {}

    public func faultOfHead(_ response: ResponseHead) -> UpstreamFault? {
        guard response.status.isSuccessful, !contentTypes.isEmpty else { return nil }
        return contentTypes.contain(MediaType(of: response.fields)) ? nil : .unexpectedType
    }

    /// - Parameter bytes: of decoded content.
    public func faultOfLength(_ bytes: Int, storedBytes: Int?) -> UpstreamFault? {
        if bytes < minimumBytes || (maximumBytes > 0 && bytes > maximumBytes) { return .unexpectedSize }
        guard let storedBytes, shrinkLimit > 0, bytes * 100 < storedBytes * shrinkLimit else { return nil }
        return .shrunk
    }

    /// Whether content is looked through from end to end, which takes a time of its own where it is long.
    public var searchesContent: Bool { !mustHave.isEmpty || !mustNotHave.isEmpty }

    /// - Parameters:
    ///   - content: decoded, and valid where it is JSON.
    ///   - storedBytes: the length of the stored copy's content, where there is one.
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

/// Media types as an operator names them: `type/subtype`, `+suffix`, or `*` for all.
public struct ContentTypes: Sendable, Equatable {
    private let patterns: [[UInt8]]

    public init(_ texts: [String]) { patterns = texts.map { $0.utf8.map(\.asciiLowercased) } }

    public var isEmpty: Bool { patterns.isEmpty }

    /// How they are written, for people.
    public static let forms = "type/subtype, +suffix or *"

    /// Whether a text can fit any type.
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
