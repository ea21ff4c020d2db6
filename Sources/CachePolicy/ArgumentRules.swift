// How a route's arguments count for the key: which make no difference, and what else is the same.

import HTTPCore

package struct ArgumentRules: Sendable {
    /// Whether arguments in another order are the same. Values of one name never change places.
    package var sorts = true
    package var ignore: [ArgumentPattern] = []
    /// Empty: all.
    package var only: [ArgumentPattern] = []
    /// Whether capital and small ASCII letters are the same.
    package var ignoresCase = false
    /// Whether `/users?` is another target than `/users`, as it is to the letter (RFC 3986 §6.2.3).
    package var keepsEmptyQuery = false
    /// What the upstream said of them.
    var variance: SearchVariance?

    package init() {}

    /// Whether the key is another than without rules.
    package var isSpecial: Bool { dropsSome || !sorts || ignoresCase || keepsEmptyQuery }

    var dropsSome: Bool { !ignore.isEmpty || !only.isEmpty || variance != nil }

    /// - Parameter name: in its canonical spelling.
    func keeps(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        if !only.isEmpty, !only.contains(where: { $0.matches(name, ignoresCase) }) { return false }
        if let variance, !variance.keeps(name, ignoringCase: ignoresCase) { return false }
        return !ignore.contains { $0.matches(name, ignoresCase) }
    }
}

/// An argument's name, or with `*` at its end all names that begin so.
package struct ArgumentPattern: Sendable {
    private let name: [UInt8]
    private let folded: [UInt8]
    private let takesRest: Bool

    /// - Parameter text: the name as it means, not percent-encoded.
    package init(_ text: String) {
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
