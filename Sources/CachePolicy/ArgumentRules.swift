// How a route's arguments count for the key: which make no difference, and what else is the same.

import HTTPCore

public struct ArgumentRules: Sendable {
    /// Whether arguments in another order are the same. Values of one name never change places.
    public var sorts = true
    public var ignore: [ArgumentPattern] = []
    /// Empty: all.
    public var only: [ArgumentPattern] = []
    /// Whether capital and small ASCII letters are the same.
    public var ignoresCase = false
    /// Whether `/users?` is another target than `/users`, as it is to the letter (RFC 3986 §6.2.3).
    public var keepsEmptyQuery = false
    /// What the upstream said of them.
    var variance: SearchVariance?

    public init() {}

    /// Whether the key is another than without rules.
    public var isSpecial: Bool { dropsSome || !sorts || ignoresCase || keepsEmptyQuery }

    var dropsSome: Bool { !ignore.isEmpty || !only.isEmpty || variance != nil }

    /// - Parameter name: in its canonical spelling.
    func keeps(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        if !only.isEmpty, !only.contains(where: { $0.matches(name, ignoresCase) }) { return false }
        if let variance, !variance.keeps(name, ignoringCase: ignoresCase) { return false }
        return !ignore.contains { $0.matches(name, ignoresCase) }
    }
}

/// An argument's name, or with `*` at its end all names that begin so.
public struct ArgumentPattern: Sendable {
    private let name: [UInt8]
    private let folded: [UInt8]
    private let takesRest: Bool

    /// - Parameter text: the name as it means, not percent-encoded.
    public init(_ text: String) {
        takesRest = text.hasSuffix("*")
        var canonical: [UInt8] = []
        CacheKey.appendName(Array((takesRest ? String(text.dropLast()) : text).utf8), to: &canonical)
        name = canonical
        folded = canonical.map(\.asciiLowercased)
    }

    fileprivate func matches(_ other: UnsafeBufferPointer<UInt8>, _ ignoresCase: Bool) -> Bool {
        let wanted = ignoresCase ? folded : name
        guard takesRest ? other.count >= wanted.count : other.count == wanted.count else { return false }
        for index in wanted.indices where (ignoresCase ? other[index].asciiLowercased : other[index]) != wanted[index] { return false }
        return true
    }
}
